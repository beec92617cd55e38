// The options of a link's socket.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>

#include "base/clock.h"

namespace hearth {

// Keep-alive detects a vanished peer on an idle link; the user timeout detects it while bytes are
// unacknowledged or its window is closed.
inline void tune_link_socket(int socket, Duration unread = std::chrono::seconds(10)) {
  const auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof(value));
  };
  (void)::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL, 0) | O_NONBLOCK);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(unread).count();
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(milliseconds));
}

inline bool is_ipv6_socket(int socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  (void)::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size);
  return at.ss_family == AF_INET6;
}

}  // namespace hearth

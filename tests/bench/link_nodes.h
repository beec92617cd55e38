// Two nodes of one cluster, for benchmarks of links.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "proto/link/tcp_transport.h"

namespace hearth::bench {

class LinkNodes {
 public:
  LinkNodes() {
    Roster roster;
    for (int i = 0; i < 2; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      roster.entries.push_back({keys_[i].public_key(), name, Role::kWorker, {}});
    }
    if (!book_->offer(sign_roster(roster, cluster_).value())) std::exit(1);
  }
  std::unique_ptr<TcpTransport> open(boost::asio::io_context& io, int node) const {
    TcpOptions options;
    options.listen_address = "127.0.0.1:0";
    options.identity = TlsIdentity::make(keys_[node]).value();
    options.roster = book_;
    auto opened = TcpTransport::open(io, options);
    if (opened) return std::move(*opened);
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    std::exit(1);
  }

 private:
  SecretKey cluster_ = SecretKey::generate();
  SecretKey keys_[2] = {SecretKey::generate(), SecretKey::generate()};
  std::shared_ptr<RosterBook> book_ = std::make_shared<RosterBook>(cluster_.public_key());
};

struct SocketPair {
  int near;
  int far;
};
// Two ends of one TCP connection over loopback.
inline SocketPair loopback_sockets() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0) std::exit(1);
  ::listen(listener, 1);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const int near = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(near, reinterpret_cast<sockaddr*>(&address), length) != 0) std::exit(1);
  const int far = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  return {near, far};
}

}  // namespace hearth::bench

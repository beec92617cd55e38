#include "coordinator/client/member_link.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "proto/address.h"
#include "proto/link/control_links.h"

namespace hearth::client {
namespace {

constexpr int kDialMilliseconds = 10'000;

struct Links {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const MemberLink>, std::less<>> by_base;
};

Links& links() {
  static Links all;
  return all;
}

bool connected(int socket) {
  pollfd waiting{socket, POLLOUT, 0};
  if (::poll(&waiting, 1, kDialMilliseconds) != 1) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

int dial(const addrinfo& to) {
  const int socket =
      ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (socket < 0) return -1;
  const bool begun = ::connect(socket, to.ai_addr, to.ai_addrlen) == 0 || errno == EINPROGRESS;
  if (begun && connected(socket) && ::send(socket, &kMemberByte, 1, MSG_NOSIGNAL) == 1) {
    return socket;
  }
  ::close(socket);
  return -1;
}

}  // namespace

Result<std::string> open_member_link(MemberLink link) {
  TRY(const Address address, parse_address(link.address));
  link.address = address.text();
  std::string base = "https://" + link.address;
  const std::lock_guard lock(links().mutex);
  links().by_base.try_emplace(base, std::make_unique<const MemberLink>(std::move(link)));
  return base;
}

const MemberLink* member_link_of(std::string_view url) {
  constexpr std::string_view kScheme = "https://";
  if (!url.starts_with(kScheme)) return nullptr;
  const std::string_view base = url.substr(0, url.find('/', kScheme.size()));
  const std::lock_guard lock(links().mutex);
  const auto found = links().by_base.find(base);
  return found == links().by_base.end() ? nullptr : found->second.get();
}

std::string pinned_key(const PublicKey& key) {
  constexpr std::array<unsigned char, 12> kHead = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                   0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
  Sha256 hash;
  hash.update(std::as_bytes(std::span(kHead)));
  hash.update(key.bytes());
  return "sha256//" + base64(hash.finish().bytes);
}

int dial_member_link(const MemberLink& link) {
  const auto address = parse_address(link.address);
  if (!address.ok()) return -1;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address->port);
  if (::getaddrinfo(address->host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  const int socket = dial(*found);
  ::freeaddrinfo(found);
  return socket;
}

}  // namespace hearth::client

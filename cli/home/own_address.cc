#include "cli/home/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

namespace hearth::cli {
namespace {

// Of the documentation block, where nobody is; nothing is sent there.
const Address kSomewhere = {"192.0.2.1", 9};

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

SocketAddress socket_address(const Address& address) {
  SocketAddress out;
  auto* six = reinterpret_cast<sockaddr_in6*>(&out.bytes);
  if (inet_pton(AF_INET6, address.host.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(address.port);
    out.size = sizeof(sockaddr_in6);
    return out;
  }
  auto* four = reinterpret_cast<sockaddr_in*>(&out.bytes);
  inet_pton(AF_INET, address.host.c_str(), &four->sin_addr);
  four->sin_family = AF_INET;
  four->sin_port = htons(address.port);
  out.size = sizeof(sockaddr_in);
  return out;
}

std::string host_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address->sa_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr)
          : &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  inet_ntop(address->sa_family, bytes, text.data(), text.size());
  return text.data();
}

}  // namespace

Result<std::string> own_host_towards(const Address& peer) {
  const SocketAddress to = socket_address(peer);
  const int probe = ::socket(to.bytes.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  SocketAddress own;
  own.size = sizeof(own.bytes);
  // Connecting a datagram socket sends nothing; it only asks the kernel for the way.
  const bool found = probe >= 0 &&
                     ::connect(probe, reinterpret_cast<const sockaddr*>(&to.bytes), to.size) == 0 &&
                     ::getsockname(probe, reinterpret_cast<sockaddr*>(&own.bytes), &own.size) == 0;
  const int why = errno;
  if (probe >= 0) ::close(probe);
  if (!found) {
    return Error{ErrorCode::kUnavailable,
                 "no way leads from this machine to " + peer.host + ": " + std::strerror(why)};
  }
  return host_of(reinterpret_cast<const sockaddr*>(&own.bytes));
}

bool is_own_host(const std::string& host) {
  SocketAddress own = socket_address({host, 0});
  const int probe = ::socket(own.bytes.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool bound =
      probe >= 0 && ::bind(probe, reinterpret_cast<const sockaddr*>(&own.bytes), own.size) == 0;
  if (probe >= 0) ::close(probe);
  return bound;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  const bool known = ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return known ? name.data() : "worker";
}

Result<std::string> own_host() {
  if (auto host = own_host_towards(kSomewhere); host.ok()) return host;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return Error{ErrorCode::kIo, std::string("reading interfaces: ") + std::strerror(errno)};
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(list, &::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    const bool usable = each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
                        (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable) return host_of(each->ifa_addr);
  }
  return Error{ErrorCode::kNotFound,
               "this machine has no address that another could reach; connect it to a network, or "
               "name an address of it with --address"};
}

}  // namespace hearth::cli

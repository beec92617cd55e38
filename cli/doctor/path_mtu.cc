#include "cli/doctor/path_mtu.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "cli/home/own_address.h"

namespace hearth::cli {
namespace {

constexpr int kWait = 300;   // milliseconds for an answer
constexpr int kPause = 800;  // before asking again: a machine may send one such answer a second
constexpr int kTries = 2;    // a datagram may be lost for other reasons
constexpr std::uint32_t kSmallest = 576;
constexpr std::uint32_t kLargest = 9'000;  // of a network at home, jumbo frames included

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int operator*() const { return descriptor_; }

 private:
  const int descriptor_;
};

bool is_six(const Address& address) { return address.host.find(':') != std::string::npos; }

int connected(const Address& address) {
  const int family = is_six(address) ? AF_INET6 : AF_INET;
  const int link = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (link < 0) return -1;
  const int never_cut = is_six(address) ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO;
  bool fine =
      is_six(address)
          ? ::setsockopt(link, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &never_cut, sizeof never_cut) == 0
          : ::setsockopt(link, IPPROTO_IP, IP_MTU_DISCOVER, &never_cut, sizeof never_cut) == 0;
  if (is_six(address)) {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(address.port);
    ::inet_pton(AF_INET6, address.host.c_str(), &to.sin6_addr);
    fine = fine && ::connect(link, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  } else {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
    fine = fine && ::connect(link, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  if (fine) return link;
  ::close(link);
  return -1;
}

enum class Fate { kArrived, kLost, kTooLarge };

// One packet of so many bytes, headers included.
Fate send_packet(const Address& address, std::uint32_t bytes) {
  const std::uint32_t headers = is_six(address) ? 48 : 28;
  const std::vector<char> payload(bytes - headers);
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(kPause));
    const Socket link(connected(address));
    if (*link < 0) return Fate::kLost;
    if (::send(*link, payload.data(), payload.size(), 0) < 0) {
      if (errno == EMSGSIZE) return Fate::kTooLarge;
      continue;
    }
    pollfd wait{*link, POLLIN, 0};
    if (::poll(&wait, 1, kWait) != 1) continue;
    char byte = 0;
    const ssize_t got = ::recv(*link, &byte, 1, MSG_DONTWAIT);
    if (got >= 0 || errno == ECONNREFUSED) return Fate::kArrived;
    if (errno == EMSGSIZE) return Fate::kTooLarge;
  }
  return Fate::kLost;
}

// What the kernel knows by now of the way.
std::uint32_t known_mtu(const Address& address) {
  const Socket link(connected(address));
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const bool six = is_six(address);
  const int level = six ? IPPROTO_IPV6 : IPPROTO_IP;
  if (*link < 0 || ::getsockopt(*link, level, six ? IPV6_MTU : IP_MTU, &mtu, &size) != 0) return 0;
  return static_cast<std::uint32_t>(mtu);
}

std::string interface_of(const std::string& own) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(list, &::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = {};
    const void* bytes = nullptr;
    if (each->ifa_addr->sa_family == AF_INET) {
      bytes = &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      bytes = &reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr;
    }
    if (bytes == nullptr) continue;
    ::inet_ntop(each->ifa_addr->sa_family, bytes, text, sizeof text);
    if (own == text) return each->ifa_name;
  }
  return "";
}

std::uint32_t mtu_of(const std::string& interface) {
  const Socket any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), sizeof(request.ifr_name) - 1);
  if (*any < 0 || ::ioctl(*any, SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

}  // namespace

Result<PathMtu> path_mtu(const Address& address) {
  TRY(const std::string own, own_host_towards(address));
  PathMtu path;
  path.interface = interface_of(own);
  path.mtu = mtu_of(path.interface);
  REQUIRE(path.mtu >= kSmallest, "the interface towards " + address.host + " is not known");
  if (send_packet(address, kSmallest) != Fate::kArrived) return path;
  std::uint32_t low = kSmallest;  // arrived
  std::uint32_t high = std::min(path.mtu, kLargest);
  if (send_packet(address, high) == Fate::kArrived) {
    path.carried = high;
    return path;
  }
  // A router that says so has told the kernel by now.
  if (const std::uint32_t known = known_mtu(address); known > low && known < high) {
    if (send_packet(address, known) == Fate::kArrived) {
      path.carried = known;
      path.told = true;
      return path;
    }
  }
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (send_packet(address, middle) == Fate::kArrived ? low : high) = middle;
  }
  path.carried = low;
  return path;
}

}  // namespace hearth::cli

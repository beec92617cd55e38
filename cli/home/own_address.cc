#include "cli/home/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/udp.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

namespace hearth::cli {
namespace {

namespace ip = boost::asio::ip;

// From the documentation block (RFC 5737); nothing is sent to it.
const Address kSomewhere = {"192.0.2.1", 9};

}  // namespace

Result<std::string> own_host_towards(const Address& peer) {
  boost::asio::io_context io;
  ip::udp::socket probe(io);
  boost::system::error_code error;
  const ip::address host = ip::make_address(peer.host, error);
  // Connecting a datagram socket sends nothing; it only asks the kernel for the route.
  if (!error) probe.connect({host, peer.port}, error);
  ip::udp::endpoint own;
  if (!error) own = probe.local_endpoint(error);
  if (!error) return own.address().to_string();
  return Error::of(ErrorCode::kUnavailable, "this machine has no route to ", peer.host, ": ",
                   error.message());
}

std::string host_name() {
  boost::system::error_code error;
  const std::string name = ip::host_name(error);
  return error || name.empty() ? "worker" : name;
}

Result<std::string> default_host() { return own_host_towards(kSomewhere); }

Result<std::string> own_host() {
  if (auto host = default_host(); host.ok()) return host;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return Error::of(ErrorCode::kIo, "cannot read the network interfaces: ", std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(list, &::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    const bool usable = each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
                        (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable) continue;
    const auto& four = *reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    return ip::address_v4(ntohl(four.sin_addr.s_addr)).to_string();
  }
  return Error{ErrorCode::kNotFound,
               "this machine has no address that others can reach; connect it to a network, or "
               "pass --address"};
}

bool AddressWatch::has_moved(TimePoint now, const std::string& other) {
  if (other != other_) since_ = other.empty() ? std::nullopt : std::optional(now);
  other_ = other;
  if (!since_ || now - *since_ < kPatience) return false;
  since_.reset();
  return true;
}

}  // namespace hearth::cli

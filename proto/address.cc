#include "proto/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/limits.h"
#include "base/number.h"
#include "base/peer_host.h"

namespace hearth {
namespace {

constexpr std::size_t kShownBytes = 64;  // the longest literal with brackets and port is 47

bool is_loopback(const std::string& host) {
  in_addr four{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

// Addresses come from flags and from peers; a message shows them without control characters.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kShownBytes)) {
    out += (c >= ' ' && c <= '~' && c != '"') ? c : '?';
  }
  return out;
}

}  // namespace

bool is_ipv4(const std::string& host) {
  in_addr parsed{};
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

bool is_ipv6(const std::string& host) {
  in6_addr parsed{};
  return inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

std::string Address::text() const {
  const bool six = host.find(':') != std::string::npos;
  return (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> parse_address(std::string_view text) {
  const std::string name = "address \"" + shown(text) + "\"";
  REQUIRE(text.size() <= limits::kAddressBytes, name, " is longer than ", limits::kAddressBytes,
          " bytes");
  // inet_pton() stops at a zero byte.
  REQUIRE(text.find('\0') == std::string_view::npos, name, " has a zero byte");
  const std::size_t colon = text.rfind(':');
  REQUIRE(colon != std::string_view::npos, name, " has no port; expected host:port");
  Address address;
  address.host = std::string(text.substr(0, colon));
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1));
  REQUIRE(port, name, " has no port from 0 to 65535 after the last colon");
  address.port = *port;
  if (address.host == "localhost") address.host = "127.0.0.1";
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
    REQUIRE(is_ipv6(address.host), name, " has no IPv6 address between its brackets");
    return address;
  }
  REQUIRE(is_ipv4(address.host), name,
          " does not begin with an IPv4 address, an IPv6 address in brackets or localhost");
  return address;
}

Result<Address> parse_loopback_address(std::string_view text) {
  TRY(Address address, parse_address(text));
  REQUIRE(is_loopback(address.host), "address \"", address.text(),
          "\" is not a loopback address: this server and its workers belong to this machine "
          "alone; use 127.0.0.1");
  return address;
}

Status check_own_host(const Address& own, const std::string& speaker) {
  const bool here = is_loopback(own.host) && is_loopback(peer_of_host(speaker));
  REQUIRE(speaker.empty() || here || peer_of_host(own.host) == peer_of_host(speaker), "address \"",
          own.text(), "\" is not on the machine that connects, ", speaker,
          "; omit --listen, or pass ", "--listen ", Address{speaker, own.port}.text());
  return ok_status();
}

}  // namespace hearth

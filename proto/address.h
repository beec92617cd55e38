// Addresses of links: "host:port" with a numeric host, "[::1]:port" for IPv6.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hearth {

// Literals of an address, without brackets and zone.
bool is_ipv4(const std::string& host);
bool is_ipv6(const std::string& host);

struct Address {
  std::string host;  // an IPv4 or IPv6 literal, without brackets
  std::uint16_t port = 0;
  std::string text() const;
  friend bool operator==(const Address&, const Address&) = default;
};

// "localhost" becomes 127.0.0.1; other names are refused, because a name can change its meaning
// between a check and a connection.
Result<Address> parse_address(std::string_view text);

// As parse_address(), for servers that no other machine may reach: the host must be loopback.
Result<Address> parse_loopback_address(std::string_view text);

// Checks that `own`, the address that a peer states for itself, is on the machine at the far end of
// its connection, `speaker`. Two loopback addresses are the same machine; an empty `speaker` is
// unknown and passes. Without this check a member could direct others to any machine and port.
Status check_own_host(const Address& own, const std::string& speaker);

}  // namespace hearth

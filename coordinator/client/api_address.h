// The address of an API as users write it: "127.0.0.1", "den.local:11500", "http://[::1]:80/v1".
// Server and clients read the same HEARTH_HOST.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace hearth::client {

inline constexpr std::uint16_t kDefaultApiPort = 11'500;

struct ApiAddress {
  std::string host;  // an address without brackets, which may end with a zone (fe80::1%eth0), or a
                     // name; "localhost" is 127.0.0.1 or ::1, where a server listens
  std::optional<std::uint16_t> port;
};

// Accepts only plain HTTP, because the server speaks no TLS.
Result<ApiAddress> parse_api_address(const std::string& text);
bool is_ip_address(const std::string& host);
// Whether this machine could listen at that numeric host.
bool is_own_host(const std::string& host);
bool is_loopback_address(const std::string& host);  // 127.0.0.0/8 or ::1
// The address to dial for a listening address: loopback for 0.0.0.0 and ::, which mean every
// address of a machine.
std::string dialled_host(const std::string& listened);
// "http://127.0.0.1:11500"
std::string api_base(const ApiAddress& address);

}  // namespace hearth::client

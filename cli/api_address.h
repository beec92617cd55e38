// The address of an API as users write it: "127.0.0.1", "localhost:11500", "http://[::1]:80/v1".
// The server listens on what the clients dial, so that both read one HEARTH_HOST.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace hearth::cli {

inline constexpr std::uint16_t kDefaultApiPort = 11'500;

struct ApiAddress {
  std::string host;  // 127.0.0.1 or ::1
  std::optional<std::uint16_t> port;
};

// Loopback alone: nothing leaves this machine before there is encryption.
Result<ApiAddress> parse_api_address(const std::string& text);

// "http://127.0.0.1:11500"
std::string api_base(const ApiAddress& address);

}  // namespace hearth::cli

// Parses a server's JSON, which may be any bytes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace hearth::client {

// A discarded value for invalid JSON and for nesting deeper than 2 * limits::kJsonDepth, because
// copying and printing recurse and would overflow the stack.
nlohmann::json parse_reply(std::string_view text);

}  // namespace hearth::client

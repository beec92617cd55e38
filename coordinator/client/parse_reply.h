// JSON that a server sent, which may be any bytes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace hearth::client {

// Discarded where it is not valid, and where it nests deeper than 2 * limits::kJsonDepth: copying
// and printing it recurse, and would end at the end of the stack.
nlohmann::json parse_reply(std::string_view text);

}  // namespace hearth::client

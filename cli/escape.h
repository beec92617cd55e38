// Text of peers and users, made safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace hearth::cli {

// Bytes below space and DEL become \xNN.
std::string escape_control(std::string_view text);

}  // namespace hearth::cli

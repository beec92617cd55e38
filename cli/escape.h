// Text of peers and users, made safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace hearth::cli {

// Bytes below space and DEL become \xNN, and so do the controls of U+0080 to U+009F, which some
// terminals obey.
std::string escape_control(std::string_view text);

}  // namespace hearth::cli

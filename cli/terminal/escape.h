// Text of peers and users, made safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace hearth::cli {

// Bytes below space and DEL become \xNN, and so do the controls of U+0080 to U+009F, which some
// terminals obey, and what is no UTF-8; and the marks of Unicode that show text in another order.
std::string escape_control(std::string_view text);
// The same, but newlines and tabs stay.
std::string escape_lines(std::string_view text);
// JSON that says the same without DEL and those controls.
std::string escape_json(std::string_view json);

}  // namespace hearth::cli

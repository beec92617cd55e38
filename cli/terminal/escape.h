// Makes text of peers and users safe for a terminal.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace hearth::cli {

// Replaces by \xNN: bytes below space, DEL, the controls U+0080 to U+009F, which some terminals
// obey, bytes that are not UTF-8, and Unicode marks that reorder text.
std::string escape_control(std::string_view text);
// The same, but newlines and tabs stay.
std::string escape_lines(std::string_view text);
// Writes foreign text to stdout at once: on a terminal as escape_lines() shows it, to a file or a
// pipe as it is.
void print_foreign(std::string_view text);
// Equivalent JSON without DEL and those controls.
std::string escape_json(std::string_view json);
// Prints it so on one line of stdout; what is not UTF-8 is replaced.
void print_escaped(const nlohmann::ordered_json& json);

}  // namespace hearth::cli

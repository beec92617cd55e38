// Names that came from a file, before they are used or printed.
#pragma once

#include <string>
#include <string_view>

namespace hearth::model {

// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);
// Any byte below space, or DEL. Such bytes could forge a line of a log or move a terminal's cursor.
bool has_control_bytes(std::string_view text);
// 'text' in quotes for an error message: bytes that are not printable ASCII as \xNN, cut at 80.
std::string quote(std::string_view text);

}  // namespace hearth::model

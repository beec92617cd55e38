// Lower-case hexadecimal text of bytes, and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace hearth {

std::string to_hex(ByteSpan bytes);

// Empty when the text is of odd length or has another character than 0-9 and a-f: one value has
// one spelling.
std::optional<Bytes> from_hex(std::string_view text);

}  // namespace hearth

// UTF-8 (RFC 3629): one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hearth {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

// One decoded character, or what stands in its place.
struct Utf8Char {
  char32_t point = kReplacement;
  std::uint32_t bytes = 0;  // the number of bytes to advance; 0 only at the end of the text
  bool valid = false;       // false: `bytes` are the maximal broken part, point is U+FFFD
  bool cut = false;         // not valid, but more bytes could still complete it
};
// Decodes at `offset`. Overlong forms, surrogates and points past U+10FFFF are broken.
Utf8Char decode_utf8(std::string_view text, std::size_t offset);

// Surrogates and points past U+10FFFF become U+FFFD.
void append_utf8(char32_t point, std::string& out);

}  // namespace hearth

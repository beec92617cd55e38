// UTF-8 and the four classes of code points that pre-tokenizers ask for.
//
// The classes are a table of Unicode 15.1 in the source (unicode_tables.inc, made by
// unicode_tables.py), the version that llama.cpp has: the ids of a text must not depend on the
// Unicode version of a library on the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hearth::model {

enum class CodePointClass : std::uint8_t {
  kOther = 0,
  kLetter = 1,       // general category L
  kNumber = 2,       // general category N
  kSpace = 4,        // White_Space
  kPunctuation = 8,  // general category P
};

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

// kOther for anything past U+10FFFF.
CodePointClass code_point_class(char32_t point);

// One decoded character, or what stands in its place.
struct Utf8Char {
  char32_t point = kReplacement;
  std::uint32_t bytes = 0;  // how many to go on by; 0 only at the end of the text
  bool valid = false;       // false: `bytes` are the maximal broken part, point is U+FFFD
  bool cut = false;         // not valid, but more bytes could still complete it
};
// Decodes at `offset`. Overlong forms, surrogates and points past U+10FFFF are broken.
Utf8Char decode_utf8(std::string_view text, std::size_t offset);

// Surrogates and points past U+10FFFF become U+FFFD.
void append_utf8(char32_t point, std::string& out);

}  // namespace hearth::model

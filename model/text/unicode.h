// The classes of code points that pre-tokenizers ask for, and the cases of letters.
//
// They are tables of Unicode 15.1 in the source (unicode_tables.inc and unicode_cases.inc, made by
// unicode_tables.py), the version that llama.cpp has: the ids of a text must not depend on the
// Unicode version of a library on the machine.
#pragma once

#include <cstdint>

#include "base/utf8.h"

namespace hearth::model {

enum class CodePointClass : std::uint8_t {
  kOther = 0,
  kLetter = 1,       // general category L
  kNumber = 2,       // general category N
  kSymbol = 3,       // general category S
  kSpace = 4,        // White_Space
  kPunctuation = 8,  // general category P
};

// kOther for anything past U+10FFFF.
CodePointClass code_point_class(char32_t point);

// The cases of letters and marks in o200k's words. They are bits, because characters without a case
// are both.
enum class LetterCase : std::uint8_t {
  kNone = 0,   // neither letter nor mark
  kUpper = 1,  // general categories Lu and Lt
  kLower = 2,  // Ll
  kBoth = 3,   // Lm, Lo and M
};

// kNone for anything past U+10FFFF.
LetterCase letter_case(char32_t point);

// Whether its script is Han: Chinese characters, also those of Japanese and Korean, with their
// radicals, their numbers and the mark that repeats one.
bool is_han(char32_t point);

}  // namespace hearth::model

#include "model/text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace hearth::model {

namespace {

constexpr std::uint32_t kRuns[] = {
#include "model/text/unicode_tables.inc"
};

constexpr std::uint32_t kCaseRuns[] = {
#include "model/text/unicode_cases.inc"
};

// The low bits of the run that holds the point, at most U+10FFFF.
template <std::size_t size>
std::uint32_t kind_of(const std::uint32_t (&runs)[size], char32_t point) {
  const std::uint32_t key = (static_cast<std::uint32_t>(point) << 4) | 15U;
  return *(std::upper_bound(std::begin(runs), std::end(runs), key) - 1) & 15U;
}

constexpr std::array<CodePointClass, 128> ascii_classes() {
  std::array<CodePointClass, 128> classes{};
  std::size_t run = 0;
  for (std::uint32_t point = 0; point < 128; ++point) {
    while ((kRuns[run + 1] >> 4) <= point) ++run;
    classes[point] = static_cast<CodePointClass>(kRuns[run] & 15U);
  }
  return classes;
}
constexpr std::array<CodePointClass, 128> kAscii = ascii_classes();

}  // namespace

CodePointClass code_point_class(char32_t point) {
  if (point < 128) return kAscii[point];
  if (point > 0x10FFFF) return CodePointClass::kOther;
  return static_cast<CodePointClass>(kind_of(kRuns, point));
}

LetterCase letter_case(char32_t point) {
  if (point >= 'a' && point <= 'z') return LetterCase::kLower;
  if (point > 0x10FFFF) return LetterCase::kNone;
  return static_cast<LetterCase>(kind_of(kCaseRuns, point));
}

}  // namespace hearth::model

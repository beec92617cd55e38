#include "model/text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

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

// First and last code points of the script Han, ascending.
constexpr std::pair<char32_t, char32_t> kHan[] = {
    {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
    {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
    {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
    {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
    {0x30000, 0x3134A}, {0x31350, 0x323AF}};

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

bool is_han(char32_t point) {
  if (point < kHan[0].first) return false;
  const auto* after = std::upper_bound(
      std::begin(kHan), std::end(kHan), point,
      [](char32_t value, const std::pair<char32_t, char32_t>& run) { return value < run.first; });
  return point <= std::prev(after)->second;
}

}  // namespace hearth::model

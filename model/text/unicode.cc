#include "model/text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace hearth::model {

namespace {

constexpr std::uint32_t kRuns[] = {
#include "model/text/unicode_tables.inc"
};

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
  const std::uint32_t key = (static_cast<std::uint32_t>(point) << 4) | 15U;
  const auto* run = std::upper_bound(std::begin(kRuns), std::end(kRuns), key) - 1;
  return static_cast<CodePointClass>(*run & 15U);
}

}  // namespace hearth::model

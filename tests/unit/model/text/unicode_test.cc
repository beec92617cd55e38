#include "model/text/unicode.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth::model {
namespace {

TEST(Unicode, ClassesAreThoseOfTheUnicodeCharacterDatabase) {
  using enum CodePointClass;
  const std::pair<char32_t, CodePointClass> cases[] = {
      {'a', kLetter},      {'Z', kLetter},         {0xDF, kLetter},    {0x8A9E, kLetter},
      {0x2EBF0, kLetter},  // new in 15.1
      {'0', kNumber},      {0x0663, kNumber},      {0x2167, kNumber},  {0xB2, kNumber},
      {' ', kSpace},       {'\t', kSpace},         {'\r', kSpace},     {0x85, kSpace},
      {0xA0, kSpace},      {0x3000, kSpace},       {0x2028, kSpace},   {'!', kPunctuation},
      {'_', kPunctuation}, {0x3002, kPunctuation}, {'$', kSymbol},     {'+', kSymbol},
      {0x1F44D, kSymbol},  {0x200D, kOther},       {0x0301, kOther},   {0x1C, kOther},
      {0x180E, kOther},    {0x10FFFF, kOther},     {0x110000, kOther}, {0x1C89, kOther},
  };
  for (const auto& [point, expected] : cases) {
    EXPECT_EQ(code_point_class(point), expected) << std::hex << std::uint32_t{point};
  }
}

TEST(Unicode, ClassesHaveTheSizesOfUnicode15_1) {
  std::size_t letters = 0;
  std::size_t numbers = 0;
  std::size_t spaces = 0;
  for (char32_t point = 0; point <= 0x10FFFF; ++point) {
    const CodePointClass kind = code_point_class(point);
    letters += kind == CodePointClass::kLetter ? 1 : 0;
    numbers += kind == CodePointClass::kNumber ? 1 : 0;
    spaces += kind == CodePointClass::kSpace ? 1 : 0;
  }
  EXPECT_EQ(letters, 136726U);
  EXPECT_EQ(numbers, 1831U);
  EXPECT_EQ(spaces, 25U);
}

}  // namespace
}  // namespace hearth::model

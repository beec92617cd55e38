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

TEST(Unicode, HanIsTheScriptOfUnicode15_1) {
  std::size_t count = 0;
  for (char32_t point = 0; point <= 0x110000; ++point) count += is_han(point) ? 1 : 0;
  EXPECT_EQ(count, 99030U);  // of Scripts.txt
  // A radical, the mark that repeats a character, the number zero and a character new in 15.1.
  for (const char32_t point : {0x2E80U, 0x3005U, 0x3007U, 0x4E2DU, 0x2EBF0U}) {
    EXPECT_TRUE(is_han(point)) << std::hex << std::uint32_t{point};
  }
  for (const char32_t point : {0x61U, 0x2E9AU, 0x3042U, 0x30A2U, 0xAC00U, 0xFF10U}) {
    EXPECT_FALSE(is_han(point)) << std::hex << std::uint32_t{point};
  }
}

}  // namespace
}  // namespace hearth::model

#include "model/text/unicode.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth::model {
namespace {

TEST(Unicode, EveryScalarValueSurvivesEncodingAndDecoding) {
  for (char32_t point = 0; point <= 0x10FFFF; ++point) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    std::string text;
    append_utf8(point, text);
    const Utf8Char c = decode_utf8(text, 0);
    ASSERT_TRUE(c.valid) << std::hex << std::uint32_t{point};
    ASSERT_EQ(c.point, point);
    ASSERT_EQ(c.bytes, text.size());
  }
}

TEST(Unicode, PointsThatAreNoScalarValueBecomeTheReplacement) {
  for (const char32_t point : {char32_t{0xD800}, char32_t{0xDFFF}, char32_t{0x110000}}) {
    std::string text;
    append_utf8(point, text);
    EXPECT_EQ(text, kReplacementUtf8);
  }
}

struct Broken {
  std::string text;
  std::uint32_t bytes;
  bool cut;
};

TEST(Unicode, BrokenBytesAreCutIntoMaximalParts) {
  const Broken cases[] = {
      {"\x80", 1, false},      // a continuation alone
      {"\xC0\x80", 1, false},  // overlong
      {"\xC1\xBF", 1, false},
      {"\xE0\x9F\xBF", 1, false},
      {"\xED\xA0\x80", 1, false},  // surrogate
      {"\xF0\x8F\xBF\xBF", 1, false},
      {"\xF4\x90\x80\x80", 1, false},  // past U+10FFFF
      {"\xF5\x80\x80\x80", 1, false},
      {"\xFF", 1, false},
      {"\xE2\x82"
       "a",
       2, false},
      {"\xF0\x9F\x92"
       "a",
       3, false},
      {"\xC3", 1, true},
      {"\xE2\x82", 2, true},
      {"\xF0\x9F\x92", 3, true},
  };
  for (const Broken& broken : cases) {
    const Utf8Char c = decode_utf8(broken.text, 0);
    EXPECT_FALSE(c.valid);
    EXPECT_EQ(c.point, kReplacement);
    EXPECT_EQ(c.bytes, broken.bytes) << testing::PrintToString(broken.text);
    EXPECT_EQ(c.cut, broken.cut) << testing::PrintToString(broken.text);
  }
  EXPECT_EQ(decode_utf8("", 0).bytes, 0U);
}

TEST(Unicode, ClassesAreThoseOfTheUnicodeCharacterDatabase) {
  using enum CodePointClass;
  const std::pair<char32_t, CodePointClass> cases[] = {
      {'a', kLetter},      {'Z', kLetter},         {0xDF, kLetter},    {0x8A9E, kLetter},
      {0x2EBF0, kLetter},  // new in 15.1
      {'0', kNumber},      {0x0663, kNumber},      {0x2167, kNumber},  {0xB2, kNumber},
      {' ', kSpace},       {'\t', kSpace},         {'\r', kSpace},     {0x85, kSpace},
      {0xA0, kSpace},      {0x3000, kSpace},       {0x2028, kSpace},   {'!', kPunctuation},
      {'_', kPunctuation}, {0x3002, kPunctuation}, {'$', kOther},      {'+', kOther},
      {0x1F44D, kOther},   {0x200D, kOther},       {0x0301, kOther},   {0x1C, kOther},
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

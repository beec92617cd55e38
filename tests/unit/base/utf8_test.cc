#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth {
namespace {

TEST(Utf8, EveryScalarValueSurvivesEncodingAndDecoding) {
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

TEST(Utf8, PointsThatAreNoScalarValueBecomeTheReplacement) {
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

TEST(Utf8, BrokenBytesAreCutIntoMaximalParts) {
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

}  // namespace
}  // namespace hearth

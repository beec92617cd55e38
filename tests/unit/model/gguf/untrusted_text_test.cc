#include "model/gguf/untrusted_text.h"

#include <gtest/gtest.h>

namespace hearth::model {
namespace {

// The bytes of a code point, by the rule alone: no check of its range.
std::string encoded(std::uint32_t code, int length) {
  if (length == 1) return {static_cast<char>(code)};
  std::string out(static_cast<std::size_t>(length), '\0');
  for (int i = length - 1; i > 0; --i) {
    out[static_cast<std::size_t>(i)] = static_cast<char>(0x80 | (code & 0x3F));
    code >>= 6;
  }
  const int lead = length == 2 ? 0xC0 : length == 3 ? 0xE0 : 0xF0;
  out[0] = static_cast<char>(lead | static_cast<int>(code));
  return out;
}

TEST(UntrustedText, EveryCodePointAndOnlyItsShortestForm) {
  for (std::uint32_t code = 0; code < 0x200000; ++code) {
    const int shortest = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    ASSERT_EQ(is_utf8(encoded(code, shortest)), !surrogate && code < 0x110000) << code;
    for (int longer = shortest + 1; longer <= 4; ++longer) {
      ASSERT_FALSE(is_utf8(encoded(code, longer))) << code;
    }
  }
}

TEST(UntrustedText, CutAndStraySequencesAreRefused) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z"));
  for (const std::string_view broken : {"\xC3", "a\xE2\x82", "\xF0\x9F\x98", "\xA9", "\xC3(",
                                        "\xE2\x82(", "\xF0\x9F\x98(", "\xFE", "\xFF"}) {
    EXPECT_FALSE(is_utf8(broken));
  }
}

TEST(UntrustedText, QuotedTextCannotForgeALine) {
  EXPECT_EQ(quote("plain"), "'plain'");
  EXPECT_EQ(quote("a\n\x1b[2J\xC3\xA9"), "'a\\x0a\\x1b[2J\\xc3\\xa9'");
  EXPECT_EQ(quote(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
  EXPECT_TRUE(has_control_bytes("\x7f"));
  EXPECT_TRUE(has_control_bytes("a\tb"));
  EXPECT_FALSE(has_control_bytes("caf\xC3\xA9"));
}

}  // namespace
}  // namespace hearth::model

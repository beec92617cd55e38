#include "model/jinja/text.h"

#include <gtest/gtest.h>

namespace hearth::model::jinja {
namespace {

TEST(JinjaText, BrokenBytesAreOneCharacterEach) {
  EXPECT_EQ(character_at("\xC3\xA9", 0).code, 0xE9u);
  EXPECT_EQ(character_at("\xED\xA0\x80", 0).code, kBrokenCharacter);  // a surrogate
  EXPECT_EQ(character_at("\xC0\x80", 0).code, kBrokenCharacter);      // overlong
  EXPECT_EQ(character_at("\xF0\x9F", 0).length, 1u);
  EXPECT_EQ(count_characters("a\xFF\xC3\xA9\xE2\x82"), 5u);
  EXPECT_EQ(character_offset("\xC3\xA9"
                             "b",
                             1),
            2u);
  EXPECT_EQ(character_offset("b", 9), 1u);
}

TEST(JinjaText, StripsByCharacters) {
  const Range space = strip_space("\xE2\x80\x83 a \xC2\xA0", true, true);
  EXPECT_EQ(space.begin, 4u);
  EXPECT_EQ(space.end, 5u);
  const Range set = strip_characters("\xC3\xA9x\xC3\xA9", "\xC3\xA9", true, true);
  EXPECT_EQ(set.begin, 2u);
  EXPECT_EQ(set.end, 3u);
  const Range broken = strip_space("\xA0", true, true);  // half a no-break space is no space
  EXPECT_EQ(broken.end - broken.begin, 1u);
}

TEST(JinjaText, MapsCase) {
  EXPECT_EQ(to_upper('z'), static_cast<std::uint32_t>('Z'));
  EXPECT_EQ(to_upper(0x44F), 0x42Fu);  // Cyrillic ya
  EXPECT_EQ(to_lower(0x3A9), 0x3C9u);  // Omega
  EXPECT_EQ(to_upper(0x101), 0x100u);  // a with macron: every second one
  EXPECT_EQ(to_upper(0x100), 0x100u);
  EXPECT_EQ(to_upper(kBrokenCharacter), kBrokenCharacter);
  std::string large;
  append_upper(large, 0xDF);
  EXPECT_EQ(large, "SS");
}

}  // namespace
}  // namespace hearth::model::jinja

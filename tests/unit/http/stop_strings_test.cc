#include "coordinator/http/stop_strings.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace hearth::coordinator::http {
namespace {

TEST(StopStringsTest, HoldsBackExactlyWhatMayBecomeOne) {
  StopMatcher matcher({"END", "</s>"});
  EXPECT_EQ(matcher.push("hello E"), "hello ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("T <"), "ENT ");
  EXPECT_EQ(matcher.push("/"), "");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.push("s> more"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.push("ignored"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStringsTest, EndGivesBackWhatWasHeld) {
  StopMatcher matcher({"abc"});
  EXPECT_EQ(matcher.push("xab"), "x");
  EXPECT_EQ(matcher.finish(), "ab");
}

TEST(StopStringsTest, FirstCompleteOfSeveralWins) {
  StopMatcher matcher({"early and", "arl"});
  EXPECT_EQ(matcher.push("an early and later"), "an e");
  EXPECT_TRUE(matcher.matched());
}

TEST(StopStringsTest, OverlapsWithItself) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.push("aa"), "");
  EXPECT_EQ(matcher.push("a"), "a");
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_TRUE(matcher.matched());
}

// However a text is cut into pieces, what is shown is the text before the stop string that is
// complete first.
TEST(StopStringsTest, CutsDoNotMatter) {
  SeededRandom random(5);
  const auto letters = [&random](std::uint64_t count) {
    std::string out;
    for (std::uint64_t i = 0; i < count; ++i) out += static_cast<char>('a' + random.next() % 3);
    return out;
  };
  int matches = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = letters(24);
    const std::vector<std::string> stops = {letters(1 + random.next() % 6),
                                            letters(1 + random.next() % 6)};
    std::size_t first = text.size();
    std::size_t end = std::string::npos;
    for (const std::string& stop : stops) {
      const std::size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() > end || (at + stop.size() == end && at > first)) continue;
      first = at;
      end = at + stop.size();
    }
    StopMatcher matcher(stops);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t step = 1 + random.next() % 24;
      shown += matcher.push(text.substr(at, step));
      at += step;
    }
    shown += matcher.finish();
    ASSERT_EQ(shown, text.substr(0, first)) << text << " " << stops[0] << " " << stops[1];
    EXPECT_EQ(matcher.matched(), end != std::string::npos);
    matches += matcher.matched() ? 1 : 0;
  }
  EXPECT_GT(matches, 1000);
}

}  // namespace
}  // namespace hearth::coordinator::http

#include "model/text/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// The definition itself: after every character, does the text end in a stop string? Of several that
// are complete at once the longest was begun first.
struct Naive {
  std::string shown;
  bool matched = false;
};
Naive naive(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

// Texts of whole characters, many stops, and at every moment: nothing of a stop string is shown,
// nothing is held that cannot become one, and no character is cut.
TEST(StopStringsTest, AgreesWithTheDefinitionAtEveryMoment) {
  const std::string letters[] = {"a", "b", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  SeededRandom random(21);
  const auto some = [&](std::uint64_t count) {
    std::string out;
    for (std::uint64_t i = 0; i < count; ++i) out += letters[random.next() % 3 + random.next() % 3];
    return out;
  };
  int matches = 0;
  for (int round = 0; round < 4'000; ++round) {
    std::vector<std::string> stops;
    for (std::uint64_t n = 1 + random.next() % 5; n > 0; --n) {
      stops.push_back(some(1 + random.next() % 5));
    }
    const std::string text = some(random.next() % 16);
    const Naive whole = naive(text, stops);
    StopMatcher matcher(stops);
    std::string shown;
    for (std::size_t i = 0; i < text.size() && !matcher.matched(); ++i) {
      shown += matcher.push(text.substr(i, 1));
      const std::string so_far = text.substr(0, i + 1);
      ASSERT_EQ(naive(so_far, stops).matched, matcher.matched());
      ASSERT_TRUE(whole.shown.starts_with(shown)) << "part of a stop string was shown";
      if (matcher.matched()) break;
      const std::string held = so_far.substr(shown.size());
      const bool useful = std::any_of(stops.begin(), stops.end(), [&](const std::string& stop) {
        return stop.size() > held.size() && stop.starts_with(held);
      });
      ASSERT_TRUE(held.empty() || useful) << "held for nothing: " << held;
    }
    shown += matcher.finish();
    ASSERT_EQ(shown, whole.shown);
    ASSERT_EQ(matcher.matched(), whole.matched);
    matches += whole.matched ? 1 : 0;
  }
  EXPECT_GT(matches, 1'000);
  EXPECT_LT(matches, 3'900);
}

TEST(StopStringsTest, WithoutStopsNothingIsHeld) {
  StopMatcher none({});
  EXPECT_EQ(none.push("abc"), "abc");
  StopMatcher empty({"", ""});
  EXPECT_EQ(empty.push("abc"), "abc");
  EXPECT_FALSE(empty.matched());
  EXPECT_EQ(empty.finish(), "");
}

}  // namespace
}  // namespace hearth::coordinator::http

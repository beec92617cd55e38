#include "model/text/special_matcher.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "tests/unit/model/small_vocabulary.h"

namespace hearth::model {
namespace {

// The longest entry that is the text at `at`, by comparing with all of them.
SpecialMatcher::Match naive(const SmallVocabulary& v, const Vocabulary& vocabulary,
                            std::string_view text, std::size_t at, std::size_t special_end) {
  SpecialMatcher::Match best;
  for (TokenId token = 0; token < static_cast<TokenId>(v.tokens.size()); ++token) {
    const std::string& entry = v.tokens[static_cast<std::size_t>(token)];
    const bool user_defined = vocabulary.kind(token) == TokenKind::kUserDefined;
    if (entry.empty() || !(vocabulary.special(token) || user_defined)) continue;
    if (text.substr(at, entry.size()) != entry) continue;
    if (!user_defined && at + entry.size() > special_end) continue;
    if (entry.size() > best.bytes) best = {token, entry.size()};
  }
  return best;
}

// Entries over three letters, so that most are parts of others, with bytes above 0x7F among them.
SmallVocabulary random_vocabulary(SeededRandom& random) {
  SmallVocabulary v;
  const std::string_view letters[] = {"a", "<", "\xFF"};
  for (int i = 0; i < 60; ++i) {
    std::string text;
    for (std::uint64_t length = random.next() % 6; length > 0; --length) {
      text += letters[random.next() % 3];
    }
    if (v.id(text) >= 0 && !text.empty()) continue;
    v.add(text, static_cast<TokenKind>(random.next() % 6));
  }
  return v;
}

TEST(SpecialMatcher, FindsWhatComparingWithAllEntriesFinds) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SeededRandom random(seed);
    SmallVocabulary v = random_vocabulary(random);
    const auto vocabulary = Vocabulary::build(v.view());
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    const SpecialMatcher matcher(*vocabulary);
    for (int round = 0; round < 40; ++round) {
      std::string text;
      for (int i = 0; i < 12; ++i) text += "a<\xFF"[random.next() % 3];
      const std::size_t special_end = random.next() % (text.size() + 2);
      for (std::size_t at = 0; at < text.size(); ++at) {
        const auto found = matcher.longest_at(text, at, special_end);
        const auto expected = naive(v, *vocabulary, text, at, special_end);
        ASSERT_EQ(found.token, expected.token) << "seed " << seed << " at " << at;
        ASSERT_EQ(found.bytes, expected.bytes);
      }
    }
  }
}

TEST(SpecialMatcher, AMarkThatReachesIntoUserTextIsNone) {
  SmallVocabulary v = small_bpe();
  const auto vocabulary = Vocabulary::build(v.view());
  ASSERT_TRUE(vocabulary.ok());
  const SpecialMatcher matcher(*vocabulary);
  const std::string text = "<|im_end|>";
  EXPECT_EQ(matcher.longest_at(text, 0, text.size()).token, v.id("<|im_end|>"));
  for (std::size_t end = 0; end < text.size(); ++end) {
    EXPECT_EQ(matcher.longest_at(text, 0, end).token, -1) << end;
  }
  EXPECT_EQ(matcher.longest_at("<think>\n", 0, 0).token, v.id("<think>\n"));
  EXPECT_EQ(matcher.longest_at("<think>x", 0, 0).token, v.id("<think>"));
  EXPECT_EQ(matcher.longest_at("<think", 0, 99).token, -1);
  EXPECT_EQ(matcher.longest_at("hello", 0, 99).token, -1);  // a normal entry
}

}  // namespace
}  // namespace hearth::model

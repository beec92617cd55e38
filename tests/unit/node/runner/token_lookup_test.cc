#include "node/runner/token_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace hearth::node {
namespace {

TokenLookup lookup_of(const std::vector<TokenId>& tokens) {
  TokenLookup lookup;
  for (const TokenId token : tokens) lookup.append(token);
  return lookup;
}

std::vector<TokenId> next_of(const TokenLookup& lookup, std::size_t most) {
  const auto match = lookup.find(most);
  return {match.next.begin(), match.next.end()};
}

TEST(TokenLookup, KnowsNothingOfNewTokens) {
  EXPECT_EQ(TokenLookup().find(4).length, 0U);
  EXPECT_EQ(lookup_of({1, 2, 3, 4, 5, 6}).find(4).length, 0U);
  EXPECT_TRUE(next_of(lookup_of({1, 2, 3, 1}), 4).empty()) << "one token is no match";
}

TEST(TokenLookup, GivesWhatFollowedTheLastTime) {
  const TokenLookup lookup = lookup_of({1, 2, 7, 8, 9, 1, 2});
  EXPECT_EQ(lookup.find(9).length, 2U);
  EXPECT_EQ(next_of(lookup, 3), (std::vector<TokenId>{7, 8, 9}));
  EXPECT_EQ(next_of(lookup, 9), (std::vector<TokenId>{7, 8, 9, 1, 2}));
  EXPECT_EQ(next_of(lookup_of({1, 2, 7, 1, 2, 8, 1, 2}), 1), (std::vector<TokenId>{8}));
}

TEST(TokenLookup, PrefersTheLongerMatch) {
  // "3 4" came later with 9 behind it, "1 2 3 4" earlier with 5.
  const TokenLookup lookup = lookup_of({1, 2, 3, 4, 5, 6, 3, 4, 9, 1, 2, 3, 4});
  EXPECT_EQ(lookup.find(1).length, 4U);
  EXPECT_EQ(next_of(lookup, 1), (std::vector<TokenId>{5}));
}

TEST(TokenLookup, CopiesWhileATextRepeatsItself) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < 200; ++i) tokens.push_back(5);
  EXPECT_EQ(lookup_of(tokens).find(4).length, TokenLookup::kLongest);
}

// Against a search through all tokens: what is found agrees as far as is said, and where eight
// tokens came before, a match of at least eight is mostly found.
TEST(TokenLookup, AgreesWithASearchOverRandomTexts) {
  SeededRandom random(3);
  std::uint32_t found = 0;
  std::uint32_t missed = 0;
  for (int round = 0; round < 40; ++round) {
    const std::uint64_t vocabulary = 2 + random.next() % 30;
    TokenLookup lookup;
    std::vector<TokenId> all;
    for (int i = 0; i < 600; ++i) {
      const bool copy = all.size() > 40 && random.next() % 3 == 0;
      const std::size_t from = copy ? random.next() % (all.size() - 20) : 0;
      for (std::size_t j = 0; j < (copy ? 12 : 1); ++j) {
        all.push_back(copy ? all[from + j] : static_cast<TokenId>(random.next() % vocabulary));
        lookup.append(all.back());
      }
      const auto match = lookup.find(4);
      if (match.length > 0) {
        const auto at = static_cast<std::size_t>(match.next.data() - lookup.tokens().data());
        ASSERT_LT(at, all.size());
        ASSERT_TRUE(std::equal(all.end() - match.length, all.end(),
                               all.begin() + static_cast<std::ptrdiff_t>(at) - match.length));
      }
      if (all.size() <= 8) continue;
      const auto earlier = std::search(all.begin(), all.end() - 1, all.end() - 8, all.end());
      if (earlier == all.end() - 1) continue;
      ++(match.length >= 8 ? found : missed);
    }
    EXPECT_EQ(lookup.tokens(), all);
  }
  EXPECT_GT(found, 20 * missed) << "other tokens take a slot now and then";
}

}  // namespace
}  // namespace hearth::node

#include "coordinator/scheduling/prefix_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace hearth::coordinator {
namespace {

const Hash256 kScope = blake2b({});

PrefixChain chain_of(const Hash256& scope, TokenId from, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), from);
  PrefixChain chain;
  extend_chain(chain, scope, tokens);
  return chain;
}

TEST(PrefixMap, FindsTheWholePagesOfABeginning) {
  PrefixMap map(10);
  map.left(chain_of(kScope, 0, 100));
  EXPECT_EQ(map.pages(), 3U);
  EXPECT_EQ(map.found(chain_of(kScope, 0, 1'000)), 3U);
  EXPECT_EQ(map.found(chain_of(kScope, 0, 70)), 2U);
  EXPECT_EQ(map.found(chain_of(kScope, 1, 100)), 0U) << "other tokens";
  EXPECT_EQ(map.found(chain_of(blake2b(Bytes(1)), 0, 100)), 0U) << "another scope";
}

TEST(PrefixMap, AChainGoesOnFromItsBeginning) {
  std::vector<TokenId> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  PrefixChain chain;
  extend_chain(chain, kScope, std::span(tokens).first(40));
  EXPECT_EQ(chain.size(), 1U);
  extend_chain(chain, kScope, tokens);
  EXPECT_EQ(chain, chain_of(kScope, 0, 100));
}

TEST(PrefixMap, ForgetsTheEndOfTheOldest) {
  PrefixMap map(4);
  map.left(chain_of(kScope, 0, 96));
  map.left(chain_of(kScope, 500, 64));
  EXPECT_EQ(map.pages(), 4U);
  EXPECT_EQ(map.found(chain_of(kScope, 0, 96)), 2U);
  EXPECT_EQ(map.found(chain_of(kScope, 500, 64)), 2U);
  map.left(chain_of(kScope, 0, 96));
  EXPECT_EQ(map.found(chain_of(kScope, 0, 96)), 3U);
  EXPECT_EQ(map.found(chain_of(kScope, 500, 64)), 1U);
}

// Against pages in the order of their age, the youngest first.
TEST(PrefixMap, KeepsTheYoungestPages) {
  constexpr std::size_t kMost = 50;
  SeededRandom random(7);
  PrefixMap map(kMost);
  std::vector<std::uint64_t> known;
  for (int round = 0; round < 5'000; ++round) {
    // Chains of few beginnings, so that most pages come again.
    const auto beginning = static_cast<TokenId>(random.next() % 12 * 1'000);
    const PrefixChain chain = chain_of(kScope, beginning, 32 * (1 + random.next() % 9));
    const auto gone = std::ranges::find_if(
        chain, [&](std::uint64_t link) { return std::ranges::find(known, link) == known.end(); });
    ASSERT_EQ(map.found(chain), static_cast<std::uint32_t>(gone - chain.begin()));
    map.left(chain);
    std::erase_if(
        known, [&](std::uint64_t link) { return std::ranges::find(chain, link) != chain.end(); });
    known.insert(known.begin(), chain.begin(), chain.end());
    known.resize(std::min(known.size(), kMost));
    ASSERT_EQ(map.pages(), known.size());
  }
}

}  // namespace
}  // namespace hearth::coordinator

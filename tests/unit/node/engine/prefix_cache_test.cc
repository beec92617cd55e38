#include "node/engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/canonical.h"

namespace hearth::node {
namespace {

using kernels::kPageTokens;

constexpr std::size_t kRow = 8;
constexpr std::uint64_t kPage = kPageTokens * (sizeof(Hash256) + kRow);
constexpr SequenceId kEarlier{1};
constexpr SequenceId kLater{2};

Hash256 hash_of(std::uint32_t value) {
  Hash256 hash;
  for (int i = 0; i < 4; ++i) hash.bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return hash;
}

const Hash256 kOneScope = hash_of(1'000'000);
const Hash256 kOtherScope = hash_of(2'000'000);

TEST(PrefixCache, KnowsARowByWhatCameIn) {
  PrefixCache cache(4, kRow, 4 * kPage);
  const BlockTable table{2, 0};
  const Position at = kPageTokens + 3;
  const Bytes out(kRow, std::byte{7});
  cache.put_input(table, at, hash_of(1));
  cache.put_output(table, at, out);
  EXPECT_TRUE(cache.came_in(table, at, hash_of(1)));
  EXPECT_FALSE(cache.came_in(table, at, hash_of(2)));
  EXPECT_TRUE(std::ranges::equal(cache.output(table, at), out));
  EXPECT_TRUE(cache.came_in({0}, 3, hash_of(1)))
      << "the replay belongs to the page, for every owner";
}

TEST(PrefixCache, PagesWithoutRoomAreNotKnown) {
  PrefixCache cache(4, kRow, 2 * kPage + 1);
  EXPECT_FALSE(cache.empty());
  const BlockTable table{1, 2};
  for (const Position at : {Position{0}, Position{kPageTokens}}) {
    cache.put_input(table, at, hash_of(1));
    cache.put_output(table, at, Bytes(kRow));
  }
  EXPECT_TRUE(cache.came_in(table, 0, hash_of(1)));
  EXPECT_FALSE(cache.came_in(table, kPageTokens, hash_of(1)));
  EXPECT_TRUE(PrefixCache(4, kRow, kPage - 1).empty());
}

TEST(PrefixCache, ATableThatWasGivenBackTakesNothing) {
  PrefixCache cache(1, kRow, kPage);
  cache.put_output({}, 0, Bytes(kRow));
  EXPECT_FALSE(cache.came_in({}, 0, hash_of(0)));
}

// Sequences on a cache and a pool of eight pages.
struct World {
  static constexpr std::uint32_t kPages = 8;
  PagePool pool{kPages};
  PrefixCache cache{kPages, kRow, kPages* kPage};

  // Leaves a sequence whose inputs are these.
  void leave(SequenceId id, const Hash256& scope, const std::vector<std::uint32_t>& inputs) {
    BlockTable table = begin(id, scope, inputs);
    cache.keep(id, scope, table, static_cast<Position>(inputs.size()), pool);
  }
  // What the engine does: takes what it finds and computes the rest.
  BlockTable begin(SequenceId id, const Hash256& scope, const std::vector<std::uint32_t>& inputs) {
    BlockTable table;
    std::optional<Hash256> chain = scope;
    for (Position at = 0; at < inputs.size(); at += kPageTokens) {
      const std::size_t end = std::min<std::size_t>(at + kPageTokens, inputs.size());
      std::vector<Hash256> page;
      for (std::size_t i = at; i < end; ++i) page.push_back(hash_of(inputs[i]));
      std::optional<PrefixCache::Found> found;
      if (chain) found = cache.take(*chain, id, page, end - at == kPageTokens);
      chain.reset();
      if (found) {
        table.push_back(found->page);
        rows_found += static_cast<std::uint32_t>(std::min<std::size_t>(found->rows, page.size()));
        if (found->rows == kPageTokens) chain = found->chain;
      } else {
        while (!pool.grow(table, static_cast<std::uint32_t>(end))) {
          EXPECT_TRUE(cache.evict(pool)) << "the pool has pages for this test";
        }
      }
      for (std::size_t i = at; i < end; ++i) {
        cache.put_input(table, static_cast<Position>(i), page[i - at]);
      }
    }
    return table;
  }
  std::uint32_t rows_found = 0;

  // Rows found by a sequence that begins so and leaves nothing else.
  std::uint32_t found(SequenceId id, const Hash256& scope,
                      const std::vector<std::uint32_t>& inputs) {
    rows_found = 0;
    leave(id, scope, inputs);
    return std::exchange(rows_found, 0);
  }
};

std::vector<std::uint32_t> counted(std::uint32_t from, std::uint32_t count) {
  std::vector<std::uint32_t> inputs(count);
  std::iota(inputs.begin(), inputs.end(), from);
  return inputs;
}

TEST(PrefixCache, FindsWhatAnotherSequenceOfItsScopeLeft) {
  World world;
  world.leave(kEarlier, kOneScope, counted(0, 70));
  EXPECT_EQ(world.cache.kept_pages(), 3U);
  EXPECT_EQ(world.found(kLater, kOtherScope, counted(0, 70)), 0U) << "another scope's";
  EXPECT_EQ(world.found(kLater, kOneScope, counted(0, 70)), 70U);
  EXPECT_EQ(world.cache.kept_pages(), 6U) << "no page is kept twice in one scope";
  auto edited = counted(0, 70);
  edited[40] = 999;
  EXPECT_EQ(world.found(SequenceId(3), kOneScope, edited), kPageTokens);
  EXPECT_EQ(world.found(SequenceId(4), kOneScope, counted(0, 70)), 70U) << "it is still there";
  EXPECT_EQ(world.found(SequenceId(5), kOneScope, edited), 70U) << "and so is its branch";
  EXPECT_EQ(world.pool.pages_used(), 8U);
  EXPECT_EQ(world.cache.kept_pages(), 8U) << "all that is used is unused by open sequences";
}

// Rows behind another row are another page, although they are the same.
TEST(PrefixCache, APageIsFoundByWhatStandsBeforeIt) {
  World world;
  world.leave(kEarlier, kOneScope, counted(0, 64));
  auto other = counted(500, 32);
  const auto tail = counted(32, 32);
  other.insert(other.end(), tail.begin(), tail.end());
  EXPECT_EQ(world.found(kLater, kOneScope, other), 0U);
}

TEST(PrefixCache, AFullPageBelongsToAllWhoUseIt) {
  World world;
  world.leave(kEarlier, kOneScope, counted(0, 64));
  BlockTable one = world.begin(kEarlier, kOneScope, counted(0, 64));
  BlockTable other = world.begin(kLater, kOneScope, counted(0, 64));
  EXPECT_EQ(one, other);
  EXPECT_EQ(world.pool.pages_used(), 2U);
  EXPECT_EQ(world.cache.kept_pages(), 0U) << "pages of open sequences are not free";
  EXPECT_FALSE(world.cache.evict(world.pool));
  world.cache.shrink(one, 32, world.pool);
  world.cache.shrink(one, 0, world.pool);
  EXPECT_EQ(world.cache.kept_pages(), 0U);
  world.cache.keep(kLater, kOneScope, other, 64, world.pool);
  EXPECT_TRUE(other.empty());
  EXPECT_EQ(world.cache.kept_pages(), 2U);
}

// A page that is not full goes on in one sequence.
TEST(PrefixCache, ThePageAtTheEndIsTakenByOne) {
  World world;
  world.leave(kEarlier, kOneScope, counted(0, 40));
  const BlockTable one = world.begin(kEarlier, kOneScope, counted(0, 50));
  EXPECT_EQ(world.rows_found, 40U);
  world.rows_found = 0;
  const BlockTable other = world.begin(kLater, kOneScope, counted(0, 50));
  EXPECT_EQ(world.rows_found, kPageTokens);
  EXPECT_EQ(one[0], other[0]);
  EXPECT_NE(one[1], other[1]);
}

// A full page of which only the first rows are known may turn out to be another conversation's.
TEST(PrefixCache, APageThatIsKnownInPartIsTakenByItsOwnSequenceAlone) {
  World world;
  world.leave(kEarlier, kOneScope, counted(0, 32));
  const std::vector<Hash256> begin{hash_of(0), hash_of(1)};
  EXPECT_FALSE(world.cache.take(kOneScope, kLater, begin, false));
  EXPECT_TRUE(world.cache.take(kOneScope, kEarlier, begin, false));
  EXPECT_EQ(world.cache.kept_pages(), 0U);
}

// The conversation that was used least recently goes first, from its end, so that its beginning
// can still be used.
TEST(PrefixCache, EvictsFromTheEndOfTheOldest) {
  World world;
  world.leave(kEarlier, kOneScope, counted(0, 96));
  world.leave(kLater, kOneScope, counted(100, 96));
  EXPECT_EQ(world.found(kEarlier, kOneScope, counted(0, 96)), 96U)
      << "the second one is the oldest now";
  for (std::uint32_t left = 2; left > 0; --left) {
    ASSERT_TRUE(world.cache.evict(world.pool));
    BlockTable table = world.begin(kLater, kOneScope, counted(100, 96));
    EXPECT_EQ(std::exchange(world.rows_found, 0), left * kPageTokens);
    // Leaves no more than was found, and is the oldest again.
    world.cache.keep(kLater, kOneScope, table, left * kPageTokens, world.pool);
    EXPECT_EQ(world.found(kEarlier, kOneScope, counted(0, 96)), 96U);
  }
  EXPECT_EQ(world.cache.kept_pages(), 4U);
  while (world.cache.evict(world.pool)) {
  }
  EXPECT_EQ(world.pool.pages_used(), 0U);
}

// A branch keeps the pages that it shares: what leads to a page is younger than the page.
TEST(PrefixCache, NoPageOutlivesWhatLeadsToIt) {
  World world;
  world.leave(kEarlier, kOneScope, counted(0, 96));
  auto branch = counted(0, 64);
  branch[40] = 7'000;
  world.leave(kLater, kOneScope, branch);
  std::uint32_t before = world.cache.kept_pages();
  EXPECT_EQ(before, 4U);
  while (world.cache.evict(world.pool)) {
    // Whatever is left of both, its beginning is there.
    const std::uint32_t left = world.cache.kept_pages();
    EXPECT_EQ(left, --before);
    BlockTable table;
    const std::vector<Hash256> first = [] {
      std::vector<Hash256> hashes;
      for (std::uint32_t i = 0; i < kPageTokens; ++i) hashes.push_back(hash_of(i));
      return hashes;
    }();
    const auto found = world.cache.take(kOneScope, kEarlier, first, true);
    EXPECT_EQ(found.has_value(), left > 0);
    if (!found) break;
    table.push_back(found->page);
    world.cache.shrink(table, 0, world.pool);
  }
}

TEST(PrefixCache, PagesWithoutRoomEndWhatIsKept) {
  PagePool pool(4);
  PrefixCache cache(4, kRow, 2 * kPage);
  BlockTable table;
  ASSERT_TRUE(pool.grow(table, 4 * kPageTokens));
  cache.keep(kEarlier, kOneScope, table, 4 * kPageTokens, pool);
  EXPECT_EQ(pool.pages_used(), cache.kept_pages());
  EXPECT_LE(cache.kept_pages(), 2U);
}

TEST(PrefixCache, OnlyItselfIsInASequencesOwnScope) {
  EXPECT_EQ(own_scope(kEarlier), own_scope(kEarlier));
  EXPECT_NE(own_scope(kEarlier), own_scope(kLater));
}

}  // namespace
}  // namespace hearth::node

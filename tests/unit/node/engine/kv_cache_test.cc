#include "node/engine/kv_cache.h"

#include <gtest/gtest.h>

#include <set>

namespace hearth::node {
namespace {

constexpr kernels::KvLayout kTwoHeads{2, 32};
const std::vector<kernels::KvLayout> kThreeLayers(3, kTwoHeads);

TEST(KvCache, TakesWhatTheBudgetHoldsAndGivesItBack) {
  const std::size_t page = kTwoHeads.page_bytes() * 3;
  auto cache = KvCache::create(kThreeLayers, page * 5 + page / 2, 1000);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(cache->pages(), 5U);
  BlockTable a;
  BlockTable b;
  EXPECT_TRUE(cache->grow(a, 1));
  EXPECT_TRUE(cache->grow(a, 32));
  EXPECT_EQ(a.size(), 1U);
  EXPECT_TRUE(cache->grow(a, 33));
  EXPECT_TRUE(cache->grow(b, 96));
  EXPECT_EQ(cache->pages_used(), 5U);
  std::set<const std::byte*> places;
  for (const BlockTable& table : {a, b}) {
    for (const std::uint32_t index : table) {
      for (std::uint32_t layer = 0; layer < 3; ++layer) {
        EXPECT_TRUE(places.insert(cache->page(index, layer)).second);
      }
    }
  }
  EXPECT_FALSE(cache->grow(a, 65));
  EXPECT_EQ(a.size(), 2U);
  cache->release(b);
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(cache->pages_used(), 2U);
  EXPECT_FALSE(cache->grow(b, 200));
  EXPECT_EQ(cache->pages_used(), 2U);
  EXPECT_TRUE(cache->grow(a, 65));
}

TEST(KvCache, LayersOfUnequalLayoutsLieBehindEachOther) {
  const kernels::KvLayout wide{1, 128};
  const std::size_t page = KvCache::page_bytes({kTwoHeads, wide, kTwoHeads});
  EXPECT_EQ(page, 2 * KvCache::page_bytes({kTwoHeads}) + KvCache::page_bytes({wide}));
  const auto cache = KvCache::create({kTwoHeads, wide, kTwoHeads}, 2 * page, 9);
  ASSERT_TRUE(cache.ok());
  ASSERT_EQ(cache->pages(), 2U);
  EXPECT_EQ(cache->page(0, 1) - cache->page(0, 0),
            static_cast<std::ptrdiff_t>(KvCache::page_bytes({kTwoHeads})));
  EXPECT_EQ(cache->page(0, 2) - cache->page(0, 1),
            static_cast<std::ptrdiff_t>(KvCache::page_bytes({wide})));
  EXPECT_EQ(cache->page(1, 0) - cache->page(0, 0), static_cast<std::ptrdiff_t>(page));
}

TEST(KvCache, RefusesABudgetUnderOnePageAndBoundsALargeOne) {
  const auto refused = KvCache::create(kThreeLayers, kTwoHeads.page_bytes() * 3 - 1, 1000);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoCapacity);
  EXPECT_NE(refused.error().message.find(std::to_string(kTwoHeads.page_bytes() * 3)),
            std::string::npos);
  EXPECT_EQ(KvCache::create({kTwoHeads}, 1 << 30, 7)->pages(), 7U);
}

TEST(StatePool, GivesEachStateOnce) {
  StatePool pool(2);
  const auto one = pool.take();
  const auto two = pool.take();
  ASSERT_TRUE(one && two);
  EXPECT_NE(*one, *two);
  EXPECT_EQ(pool.take(), std::nullopt);
  pool.give(*one);
  EXPECT_EQ(pool.used(), 1U);
  EXPECT_EQ(pool.take(), one);
  EXPECT_DEATH(
      {
        pool.give(0);
        pool.give(1);
        pool.give(1);
      },
      "given back once");
}

// Of a stage whose layers all keep states: its pages count positions.
TEST(KvCache, PagesOfNoLayerTakeNoMemory) {
  const std::vector<kernels::KvLayout> none(2);
  auto cache = KvCache::create(none, 0, 7);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(cache->pages(), 7U);
  EXPECT_EQ(KvCache::page_bytes(none), 0U);
  BlockTable table;
  EXPECT_TRUE(cache->grow(table, 100));
  EXPECT_EQ(cache->pages_used(), 4U);
}

}  // namespace
}  // namespace hearth::node

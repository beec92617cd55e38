#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/random.h"
#include "node/engine/kv_cache.h"

namespace hearth::node {
namespace {

constexpr kernels::KvLayout kLayout{2, 32};

std::uint32_t pages_of(std::uint32_t positions) {
  std::uint32_t pages = 0;
  for (std::uint32_t held = 0; held < positions; held += kernels::kPageTokens) ++pages;
  return pages;
}

// Against an allocator that only counts: the same requests succeed, no two share a page, what was
// given stays given, and every byte of a page is its owner's alone.
TEST(KvCacheProperty, GivesAndTakesAsANaiveAllocatorDoes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SeededRandom random(seed);
    constexpr std::uint32_t kLayers = 3;
    const std::uint32_t pages = 1 + static_cast<std::uint32_t>(random.next() % 24);
    auto cache = KvCache::create(std::vector(kLayers, kLayout), std::size_t{1} << 30, pages);
    ASSERT_TRUE(cache.ok());
    ASSERT_EQ(cache->pages(), pages);
    std::map<int, BlockTable> tables;
    std::map<int, std::uint32_t> held;  // pages of each, by the rule
    for (int i = 0; i < 400; ++i) {
      const int who = static_cast<int>(random.next() % 6);
      std::uint32_t used = 0;
      for (const auto& [owner, count] : held) used += count;
      ASSERT_EQ(cache->pages_used(), used);
      if (random.next() % 4 == 0) {
        cache->release(tables[who]);
        held[who] = 0;
        ASSERT_TRUE(tables[who].empty());
      } else if (random.next() % 4 == 0) {
        const auto positions = static_cast<std::uint32_t>(random.next() % (10 * 32 + 2));
        const BlockTable before = tables[who];
        cache->shrink(tables[who], positions);
        held[who] = std::min(held[who], pages_of(positions));
        ASSERT_EQ(tables[who].size(), held[who]);
        ASSERT_TRUE(std::equal(tables[who].begin(), tables[who].end(), before.begin()));
      } else {
        const auto positions = static_cast<std::uint32_t>(random.next() % (10 * 32 + 2));
        const BlockTable before = tables[who];
        const std::uint32_t wanted = std::max(pages_of(positions), held[who]);
        const bool fits = used - held[who] + wanted <= pages;
        ASSERT_EQ(cache->grow(tables[who], positions), fits);
        if (fits) held[who] = wanted;
        ASSERT_EQ(tables[who].size(), held[who]);
        ASSERT_TRUE(std::equal(before.begin(), before.end(), tables[who].begin()));
      }
      std::set<std::uint32_t> owned;
      for (const auto& [owner, table] : tables) {
        for (const std::uint32_t page : table) {
          ASSERT_LT(page, pages);
          ASSERT_TRUE(owned.insert(page).second);
        }
      }
    }
    for (auto& [owner, table] : tables) cache->release(table);
    EXPECT_EQ(cache->pages_used(), 0U);
    BlockTable everything;
    EXPECT_FALSE(cache->grow(everything, pages * 32 + 1));
    EXPECT_TRUE(cache->grow(everything, pages * 32));
  }
}

TEST(KvCacheProperty, EveryLayerOfEveryPageIsMemoryOfItsOwn) {
  constexpr std::uint32_t kLayers = 3;
  auto cache = KvCache::create(std::vector(kLayers, kLayout), std::size_t{1} << 30, 5);
  ASSERT_TRUE(cache.ok());
  const std::size_t bytes = kLayout.page_bytes();
  for (std::uint32_t page = 0; page < 5; ++page) {
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(cache->page(page, layer)) % 64, 0U);
      std::memset(cache->page(page, layer), static_cast<int>(page * kLayers + layer), bytes);
    }
  }
  for (std::uint32_t page = 0; page < 5; ++page) {
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      const std::byte* data = cache->page(page, layer);
      const auto expected = static_cast<std::byte>(page * kLayers + layer);
      EXPECT_EQ(std::count(data, data + bytes, expected), static_cast<std::ptrdiff_t>(bytes));
    }
  }
}

TEST(KvCacheProperty, ABudgetIsNeverPassedAndNeverWasted) {
  for (std::uint32_t layers = 1; layers <= 4; ++layers) {
    for (const kernels::KvLayout layout : {kLayout, kernels::KvLayout{1, 64}}) {
      const std::size_t page = (layout.page_bytes() + 63) / 64 * 64 * layers;
      for (const std::size_t budget : {page - 1, page, 2 * page - 1, 7 * page, 7 * page + 1}) {
        const auto cache = KvCache::create(std::vector(layers, layout), budget, 1000);
        ASSERT_EQ(cache.ok(), budget >= page);
        if (cache.ok()) {
          EXPECT_EQ(cache->pages(), budget / page);
        }
      }
    }
  }
}

TEST(KvCacheProperty, NoPositionsNeedNoPage) {
  auto cache = KvCache::create({kLayout}, std::size_t{1} << 20, 1);
  ASSERT_TRUE(cache.ok());
  BlockTable first;
  BlockTable second;
  EXPECT_TRUE(cache->grow(first, 0));
  EXPECT_TRUE(first.empty());
  EXPECT_TRUE(cache->grow(first, 32));
  EXPECT_TRUE(cache->grow(second, 0));
  EXPECT_FALSE(cache->grow(second, 1));
  EXPECT_FALSE(cache->grow(second, 0xFFFFFFFF));
  cache->release(second);
  cache->release(second);
  EXPECT_EQ(cache->pages_used(), 1U);
}

}  // namespace
}  // namespace hearth::node

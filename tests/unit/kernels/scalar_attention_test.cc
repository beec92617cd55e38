// Attention over pages: its meaning in double, equality of bits of all tables, and that nothing but
// the visible positions matters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using namespace fixtures;  // NOLINT

const Kernels& scalar() { return *kernels_named("scalar").value(); }

// A sequence's pages of one layer, written by one table.
class Cache {
 public:
  Cache(KvLayout layout, std::uint32_t positions) : layout_(layout) {
    for (std::uint32_t p = 0; p < positions; p += kPageTokens) {
      storage_.push_back(aligned<std::byte>(layout.page_bytes()));
      pages_.push_back(storage_.back().get());
    }
  }
  bool write(const Kernels& table, std::uint32_t position, const float* k, const float* v) {
    return table.kv_write(layout_, storage_[position / kPageTokens].get(), position % kPageTokens,
                          k, v);
  }
  bool operator==(const Cache& other) const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      if (std::memcmp(storage_[i].get(), other.storage_[i].get(), layout_.page_bytes()) != 0) {
        return false;
      }
    }
    return true;
  }
  const std::vector<const std::byte*>& pages() const { return pages_; }

 private:
  KvLayout layout_;
  std::vector<std::unique_ptr<std::byte[], FreeAligned>> storage_;
  std::vector<const std::byte*> pages_;
};

struct Case {
  KvLayout layout;
  std::uint32_t group;
  std::uint32_t positions;
};

struct Tokens {
  std::vector<float> k;
  std::vector<float> v;
};

Tokens tokens(Generator& random, const Case& c, bool extreme) {
  const std::size_t n = std::size_t{c.positions} * c.layout.kv_heads * c.layout.head_dim;
  if (extreme) return {wild(random, n, -120, 4), wild(random, n, -120, 36)};
  return {normals(random, n, 2.0F), normals(random, n)};
}

std::vector<float> attend(const Kernels& table, const Case& c, const Cache& cache,
                          std::uint32_t kv_head, const std::vector<float>& query,
                          std::uint32_t begin, std::uint32_t end, float score_scale,
                          const std::vector<float>& sinks = {}) {
  std::vector<float> out(query.size(), -7.0F);
  const std::size_t room = attention_scratch(c.group, end - begin);
  const auto scratch = aligned<float>(room + 16);
  AttentionArgs args;
  args.layout = c.layout;
  args.kv_head = kv_head;
  args.group = c.group;
  args.query = query.data();
  args.pages = cache.pages().data();
  args.begin = begin;
  args.end = end;
  args.score_scale = score_scale;
  args.sinks = sinks.empty() ? nullptr : sinks.data();
  args.scratch = scratch.get();
  args.out = out.data();
  EXPECT_TRUE(table.attention(args));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(scratch[room + i]), 0xFFFFFFFFU) << "past the scratch";
  }
  return out;
}

float scale_of(const Case& c) { return 1.0F / std::sqrt(static_cast<float>(c.layout.head_dim)); }

constexpr Case kCases[] = {{{3, 64}, 3, 70},  {{1, 32}, 1, 33},   {{2, 96}, 4, 64},
                           {{2, 128}, 7, 40}, {{1, 256}, 2, 100}, {{1, 512}, 5, 37},
                           {{4, 64}, 8, 20},  {{1, 64}, 2, 517}};

TEST(Attention, EveryTableComputesTheSameBits) {
  for (const Case& c : kCases) {
    for (const bool extreme : {false, true}) {
      Generator random(c.positions + c.layout.head_dim);
      const Tokens t = tokens(random, c, extreme);
      const std::size_t width = std::size_t{c.layout.kv_heads} * c.layout.head_dim;
      Cache expected_cache(c.layout, c.positions);
      for (std::uint32_t i = 0; i < c.positions; ++i) {
        ASSERT_TRUE(expected_cache.write(scalar(), i, &t.k[i * width], &t.v[i * width]));
      }
      for (const Kernels* table : available_kernels()) {
        Cache cache(c.layout, c.positions);
        for (std::uint32_t i = 0; i < c.positions; ++i) {
          ASSERT_TRUE(cache.write(*table, i, &t.k[i * width], &t.v[i * width]));
        }
        ASSERT_TRUE(cache == expected_cache) << table->name;
        for (int round = 0; round < 12; ++round) {
          const std::uint32_t end = round == 0 ? c.positions : 1 + random() % c.positions;
          const std::uint32_t begin = round < 4 ? 0 : random() % end;
          const std::uint32_t head = random() % c.layout.kv_heads;
          const std::size_t n = std::size_t{c.group} * c.layout.head_dim;
          const std::vector<float> query =
              extreme && round % 2 == 0 ? wild(random, n, -120, 6) : normals(random, n, 2.0F);
          const std::vector<float> want =
              attend(scalar(), c, cache, head, query, begin, end, scale_of(c));
          ASSERT_TRUE(
              same_bits(attend(*table, c, cache, head, query, begin, end, scale_of(c)), want))
              << table->name << " head_dim " << c.layout.head_dim << " [" << begin << ", " << end
              << ") extreme " << extreme;
          const std::vector<float> sinks =
              extreme ? wild(random, c.group, -20, 30) : normals(random, c.group, 4.0F);
          const std::vector<float> sunk =
              attend(scalar(), c, cache, head, query, begin, end, scale_of(c), sinks);
          ASSERT_TRUE(same_bits(
              attend(*table, c, cache, head, query, begin, end, scale_of(c), sinks), sunk))
              << table->name << " with sinks, head_dim " << c.layout.head_dim;
        }
      }
    }
  }
}

// A sink takes its share of the weight, as one more position whose value is zero would.
TEST(Attention, SinksTakeWeightAndGiveNothing) {
  const Case c = {{1, 64}, 2, 40};
  for (const Kernels* table : available_kernels()) {
    Generator random(22);
    const Tokens t = tokens(random, c, false);
    Cache cache(c.layout, c.positions);
    for (std::uint32_t i = 0; i < c.positions; ++i) {
      ASSERT_TRUE(cache.write(*table, i, &t.k[i * 64], &t.v[i * 64]));
    }
    const std::vector<float> query(128, 0.0F);  // every score is 0: equal weights
    const auto plain = attend(*table, c, cache, 0, query, 0, 40, scale_of(c));
    const float log_of_40 = std::log(40.0F);  // as much as all positions together
    const auto sunk = attend(*table, c, cache, 0, query, 0, 40, scale_of(c), {log_of_40, -200.0F});
    for (std::uint32_t d = 0; d < 64; ++d) {
      EXPECT_NEAR(sunk[d], plain[d] / 2, std::abs(plain[d]) * 1e-5F) << table->name;
      EXPECT_EQ(sunk[64 + d], plain[64 + d]) << table->name;
    }
    const auto drowned = attend(*table, c, cache, 0, query, 0, 40, scale_of(c), {1e9F, 300.0F});
    EXPECT_TRUE(same_bits(drowned, std::vector<float>(128, 0.0F))) << table->name;
  }
}

TEST(Attention, SinksOutOfRangeRefuseTheQuery) {
  const Case c = {{1, 32}, 2, 1};
  Generator random(23);
  const Tokens t = tokens(random, c, false);
  Cache cache(c.layout, 1);
  ASSERT_TRUE(cache.write(scalar(), 0, t.k.data(), t.v.data()));
  const std::vector<float> query = normals(random, 64);
  for (const Kernels* table : available_kernels()) {
    for (const float bad : {0x1.000002p40F, -0x1.000002p40F, INFINITY, -INFINITY, NAN, 0x1p40F}) {
      const std::vector<float> sinks = {0.0F, bad};
      std::vector<float> out(64, -7.0F);
      const auto scratch = aligned<float>(attention_scratch(2, 1));
      AttentionArgs args;
      args.layout = c.layout;
      args.group = 2;
      args.query = query.data();
      args.pages = cache.pages().data();
      args.end = 1;
      args.score_scale = 0.125F;
      args.sinks = sinks.data();
      args.scratch = scratch.get();
      args.out = out.data();
      EXPECT_EQ(table->attention(args), bad == 0x1p40F) << table->name << " " << bad;
      if (bad != 0x1p40F) {
        EXPECT_TRUE(same_bits(out, std::vector<float>(64, 0.0F)));
      }
    }
  }
}

// Against softmax(q k) v in double over the unquantised vectors: int8 costs about a percent.
TEST(Attention, IsAttention) {
  const Case c = {{2, 64}, 3, 50};
  const std::size_t width = 128;
  for (const Kernels* table : available_kernels()) {
    Generator random(21);
    const Tokens t = tokens(random, c, false);
    Cache cache(c.layout, c.positions);
    for (std::uint32_t i = 0; i < c.positions; ++i) {
      ASSERT_TRUE(cache.write(*table, i, &t.k[i * width], &t.v[i * width]));
    }
    const std::vector<float> query = normals(random, std::size_t{3} * 64);
    for (std::uint32_t head = 0; head < 2; ++head) {
      const std::vector<float> out =
          attend(*table, c, cache, head, query, 0, c.positions, scale_of(c));
      for (std::uint32_t g = 0; g < 3; ++g) {
        std::vector<double> weights(c.positions);
        double sum = 0;
        for (std::uint32_t i = 0; i < c.positions; ++i) {
          double score = 0;
          for (std::uint32_t d = 0; d < 64; ++d) {
            score += double{query[g * 64 + d]} * t.k[i * width + head * 64 + d];
          }
          weights[i] = std::exp(score / 8.0);
          sum += weights[i];
        }
        for (std::uint32_t d = 0; d < 64; ++d) {
          double exact = 0;
          for (std::uint32_t i = 0; i < c.positions; ++i) {
            exact += weights[i] / sum * t.v[i * width + head * 64 + d];
          }
          ASSERT_NEAR(out[g * 64 + d], exact, 0.05) << table->name;
        }
      }
    }
  }
}

// A query's result is the same however much is written behind it and whatever lies before `begin`.
TEST(Attention, OnlyVisiblePositionsMatter) {
  const Case c = {{1, 64}, 3, 200};
  Generator random(22);
  const Tokens t = tokens(random, c, false);
  const std::vector<float> query = normals(random, std::size_t{3} * 64);
  for (const Kernels* table : available_kernels()) {
    Cache whole(c.layout, c.positions);
    for (std::uint32_t i = 0; i < c.positions; ++i) {
      ASSERT_TRUE(whole.write(*table, i, &t.k[i * 64], &t.v[i * 64]));
    }
    Cache growing(c.layout, c.positions);
    for (std::uint32_t i = 0; i < c.positions; ++i) {
      ASSERT_TRUE(growing.write(*table, i, &t.k[i * 64], &t.v[i * 64]));
      ASSERT_TRUE(same_bits(attend(*table, c, growing, 0, query, 0, i + 1, scale_of(c)),
                            attend(*table, c, whole, 0, query, 0, i + 1, scale_of(c))))
          << table->name << " " << i;
    }
    Cache window(c.layout, c.positions);  // positions before 70 never written
    for (std::uint32_t i = 70; i < 111; ++i) {
      ASSERT_TRUE(window.write(*table, i, &t.k[i * 64], &t.v[i * 64]));
    }
    ASSERT_TRUE(same_bits(attend(*table, c, window, 0, query, 70, 111, scale_of(c)),
                          attend(*table, c, whole, 0, query, 70, 111, scale_of(c))));
  }
}

// The page a position lies in, and the slot, are layout only: a window moved by any distance gives
// the same bits.
TEST(Attention, PageBordersDoNotMatter) {
  const Case c = {{1, 32}, 2, 160};
  Generator random(23);
  const Tokens t = tokens(random, {c.layout, 1, 48}, false);
  const std::vector<float> query = normals(random, std::size_t{2} * 32);
  for (const Kernels* table : available_kernels()) {
    std::vector<float> expected;
    for (std::uint32_t shift = 0; shift < 100; shift += 7) {
      Cache cache(c.layout, c.positions);
      for (std::uint32_t i = 0; i < 48; ++i) {
        ASSERT_TRUE(cache.write(*table, shift + i, &t.k[i * 32], &t.v[i * 32]));
      }
      const std::vector<float> out =
          attend(*table, c, cache, 0, query, shift, shift + 48, scale_of(c));
      if (shift == 0) expected = out;
      ASSERT_TRUE(same_bits(out, expected)) << table->name << " " << shift;
    }
  }
}

TEST(Attention, HeadsOfAGroupAreIndependent) {
  const Case c = {{1, 64}, 7, 45};
  Generator random(24);
  const Tokens t = tokens(random, c, false);
  const std::vector<float> query = normals(random, std::size_t{7} * 64);
  for (const Kernels* table : available_kernels()) {
    Cache cache(c.layout, c.positions);
    for (std::uint32_t i = 0; i < c.positions; ++i) {
      ASSERT_TRUE(cache.write(*table, i, &t.k[i * 64], &t.v[i * 64]));
    }
    const std::vector<float> together = attend(*table, c, cache, 0, query, 0, 45, scale_of(c));
    for (std::uint32_t g = 0; g < 7; ++g) {
      const std::vector<float> one(query.begin() + g * 64, query.begin() + (g + 1) * 64);
      const std::vector<float> alone =
          attend(*table, {c.layout, 1, 45}, cache, 0, one, 0, 45, scale_of(c));
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + g * 64));
    }
  }
}

TEST(Attention, ZeroValuesGiveZero) {
  const Case c = {{1, 64}, 2, 10};
  for (const Kernels* table : available_kernels()) {
    Cache cache(c.layout, c.positions);
    const std::vector<float> k(64, 1.0F);
    const std::vector<float> v(64, 0.0F);
    for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(cache.write(*table, i, k.data(), v.data()));
    const std::vector<float> query(128, 1.0F);
    EXPECT_TRUE(same_bits(attend(*table, c, cache, 0, query, 0, 10, 0.125F),
                          std::vector<float>(128, 0.0F)));
  }
}

// Sums over more positions than fit 32 bits a byte plane: equal values come back as they went in.
TEST(Attention, LongSequencesDoNotOverflow) {
  const std::uint32_t positions = 70'000;
  const KvLayout layout = {1, 32};
  const auto page = aligned<std::byte>(layout.page_bytes());
  const std::vector<float> k(32, 1.0F);
  std::vector<float> v(32, 127.0F);
  v[5] = -127.0F;
  for (std::uint32_t slot = 0; slot < kPageTokens; ++slot) {
    ASSERT_TRUE(scalar().kv_write(layout, page.get(), slot, k.data(), v.data()));
  }
  const std::vector<const std::byte*> pages(positions / kPageTokens + 1, page.get());
  const std::vector<float> query(32, 1.0F);
  std::vector<float> expected;
  for (const Kernels* table : available_kernels()) {
    std::vector<float> out(32);
    const auto scratch = aligned<float>(attention_scratch(1, positions));
    const AttentionArgs args = {layout, 0,         1,      query.data(),  pages.data(),
                                0,      positions, 0.125F, scratch.get(), out.data()};
    ASSERT_TRUE(table->attention(args));
    if (expected.empty()) expected = out;
    EXPECT_TRUE(same_bits(out, expected)) << table->name;
    EXPECT_NEAR(out[0], 127.0F, 1e-4);
    EXPECT_NEAR(out[5], -127.0F, 1e-4);
  }
}

TEST(Attention, ValuesOutOfRangeAreRefused) {
  const Case c = {{2, 32}, 2, 1};
  for (const Kernels* table : available_kernels()) {
    for (const float bad : {INFINITY, -INFINITY, NAN, 0x1.000002p40F, -0x1.000002p40F}) {
      Cache cache(c.layout, 1);
      std::vector<float> good(64, 1.0F);
      std::vector<float> broken = good;
      broken[45] = bad;
      EXPECT_FALSE(cache.write(*table, 0, broken.data(), good.data()));
      EXPECT_FALSE(cache.write(*table, 0, good.data(), broken.data()));
      good[45] = std::copysign(kAttentionMax, bad);
      EXPECT_TRUE(cache.write(*table, 0, good.data(), good.data()));
      std::vector<float> out(64, 5.0F);
      const auto scratch = aligned<float>(attention_scratch(2, 1));
      const AttentionArgs args = {c.layout, 0, 2,      broken.data(), cache.pages().data(),
                                  0,        1, 0.125F, scratch.get(), out.data()};
      EXPECT_FALSE(table->attention(args));
      EXPECT_TRUE(same_bits(out, std::vector<float>(64, 0.0F)));
    }
  }
}

}  // namespace
}  // namespace hearth::kernels

// Attention against the scalar table: equality of bits over head shapes, lengths with tails,
// windows and refusals, with queries of unlike lengths in one call and several seeds of the
// emulated card.
#include "kernels/cuda/attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "card.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels::cuda {
namespace {

using namespace fixtures;  // NOLINT
using card::Input;
using card::Memory;

const Kernels& scalar() { return *kernels_named("scalar").value(); }

struct Shape {
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
  std::vector<std::array<std::uint32_t, 2>> visible;  // begin and end of each token
  bool wild = false;
  float value_scale = 1.0F;
  float value_most = 0.0F;  // not 0: the largest value of every head and position, exactly
};

// A cache of one sequence a token, or of one for all, as the CPU writes it, and the same pages in
// the card's memory.
class Cache {
 public:
  Cache(Generator& random, const Shape& shape, bool one_sequence = false)
      : layout_{shape.kv_heads, shape.head_dim}, one_sequence_(one_sequence) {
    const std::size_t narrow = std::size_t{shape.kv_heads} * shape.head_dim;
    auto sequences = shape.visible;
    if (one_sequence) {
      sequences = {shape.visible[0]};
      for (const auto& [begin, end] : shape.visible) {
        sequences[0][0] = std::min(sequences[0][0], begin);
        sequences[0][1] = std::max(sequences[0][1], end);
      }
    }
    for (const auto& [begin, end] : sequences) {
      auto& pages = host_.emplace_back();
      for (std::uint32_t p = 0; p * kPageTokens < end; ++p) {
        pages.push_back(aligned<std::byte>(layout_.page_bytes()));
        std::memset(pages.back().get(), 0x3C, layout_.page_bytes());
        for (std::uint32_t slot = 0; slot < kPageTokens; ++slot) {
          if (p * kPageTokens + slot >= end) continue;
          const auto values = [&](float scale) {
            return shape.wild ? wild(random, narrow, -110, 36) : normals(random, narrow, scale);
          };
          const std::vector<float> key = values(1.0F);
          std::vector<float> value = values(shape.value_scale);
          for (std::size_t i = 0; i < narrow && shape.value_most != 0.0F; ++i) {
            value[i] = i % shape.head_dim == 0 ? shape.value_most
                                               : std::fmod(value[i], 1.0F) * shape.value_most;
          }
          EXPECT_TRUE(
              scalar().kv_write(layout_, pages.back().get(), slot, key.data(), value.data()));
        }
      }
      tables_.push_back(copy(pages, begin / kPageTokens));
      addresses_.push_back(tables_.back()->data());
    }
    addresses_.resize(shape.visible.size(), addresses_.front());
    table_of_tables_ = std::make_unique<Input<const std::byte* const*>>(addresses_);
  }
  const std::byte* const* const* card() const { return table_of_tables_->data(); }
  std::vector<const std::byte*> host(std::size_t token) const {
    std::vector<const std::byte*> pages;
    for (const auto& page : host_[one_sequence_ ? 0 : token]) pages.push_back(page.get());
    return pages;
  }

 private:
  using Page = std::unique_ptr<std::byte[], FreeAligned>;
  // Pages wholly before the first visible position are not there at all.
  std::unique_ptr<Input<const std::byte*>> copy(const std::vector<Page>& pages,
                                                std::uint32_t first) {
    std::vector<const std::byte*> table(pages.size(), nullptr);
    for (std::size_t p = first; p < pages.size(); ++p) {
      const std::byte* bytes = pages[p].get();
      pages_.push_back(std::make_unique<Input<std::byte>>(
          std::vector<std::byte>(bytes, bytes + layout_.page_bytes())));
      table[p] = pages_.back()->data();
    }
    return std::make_unique<Input<const std::byte*>>(table);
  }

  KvLayout layout_;
  bool one_sequence_;
  std::vector<std::vector<Page>> host_;
  std::vector<std::unique_ptr<Input<std::byte>>> pages_;
  std::vector<std::unique_ptr<Input<const std::byte*>>> tables_;
  std::vector<const std::byte* const*> addresses_;
  std::unique_ptr<Input<const std::byte* const*>> table_of_tables_;
};

struct Found {
  std::vector<float> out;
  std::vector<std::uint32_t> failed;
};

Found expected_of(const Shape& shape, const Cache& cache, const std::vector<float>& query,
                  float score_scale) {
  const std::uint32_t group = shape.heads / shape.kv_heads;
  const std::size_t part = std::size_t{group} * shape.head_dim;
  Found found{std::vector<float>(query.size()),
              std::vector<std::uint32_t>(shape.visible.size(), 0)};
  for (std::size_t t = 0; t < shape.visible.size(); ++t) {
    const auto pages = cache.host(t);
    const auto [begin, end] = shape.visible[t];
    const auto scratch = aligned<float>(attention_scratch(group, end - begin));
    for (std::uint32_t h = 0; h < shape.kv_heads; ++h) {
      const std::size_t at = (t * shape.kv_heads + h) * part;
      if (!scalar().attention({{shape.kv_heads, shape.head_dim},
                               h,
                               group,
                               &query[at],
                               pages.data(),
                               begin,
                               end,
                               score_scale,
                               scratch.get(),
                               &found.out[at]})) {
        found.failed[t] = 1;
      }
    }
  }
  return found;
}

// Spare pages with which a call splits any context.
constexpr std::uint32_t kInSplits = 64;

void compare(Generator& random, const Shape& shape, std::vector<float> query, std::uint64_t seed,
             std::uint32_t spare_pages = 0) {
  const auto tokens = static_cast<std::uint32_t>(shape.visible.size());
  const Cache cache(random, shape);
  const float score_scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  const Found expected = expected_of(shape, cache, query, score_scale);
  std::vector<std::uint32_t> begins;
  std::vector<std::uint32_t> ends;
  std::uint32_t pages_most = 0;
  for (const auto& [begin, end] : shape.visible) {
    begins.push_back(begin);
    ends.push_back(end);
    const std::uint32_t pages = (end + kPageTokens - 1) / kPageTokens - begin / kPageTokens;
    pages_most = std::max(pages_most, pages + spare_pages);
  }
  const Input<float> queries(query);
  const Input<std::uint32_t> card_begins(begins);
  const Input<std::uint32_t> card_ends(ends);
  Memory<float> scores(attention_scores(tokens, shape.heads, pages_most));
  Memory<std::byte> state(
      std::vector<std::byte>(attention_state_bytes(tokens, shape.heads, shape.head_dim)));
  Memory<float> out(query.size());
  Memory<std::uint32_t> failed(std::vector<std::uint32_t>(tokens, 0));
  card::set_seed(seed);
  const AttentionRows rows{tokens,           shape.heads,  {shape.kv_heads, shape.head_dim},
                           queries.data(),   cache.card(), card_begins.data(),
                           card_ends.data(), pages_most,   score_scale,
                           out.data()};
  for (int call = 0; call < 2; ++call) {  // the second finds the state as the first left it
    ASSERT_TRUE(attention(rows, {scores.data(), state.data()}, failed.data(), nullptr).ok());
    ASSERT_TRUE(same_bits(out.values(), expected.out))
        << shape.heads << " heads of " << shape.head_dim << " call " << call;
    ASSERT_EQ(failed.values(), expected.failed);
    ASSERT_EQ(state.values(), std::vector<std::byte>(state.size()));
  }
}

// Rows of one prompt against the same.
void compare_prompt(Generator& random, const Shape& shape, const std::vector<float>& query,
                    std::uint64_t seed) {
  const auto tokens = static_cast<std::uint32_t>(shape.visible.size());
  const Cache cache(random, shape, true);
  const float score_scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  const Found expected = expected_of(shape, cache, query, score_scale);
  std::vector<std::uint32_t> begins;
  std::vector<std::uint32_t> ends;
  for (const auto& [begin, end] : shape.visible) {
    begins.push_back(begin);
    ends.push_back(end);
  }
  const Input<float> queries(query);
  const Input<std::uint32_t> card_begins(begins);
  const Input<std::uint32_t> card_ends(ends);
  Memory<float> out(query.size());
  Memory<std::uint32_t> failed(std::vector<std::uint32_t>(tokens, 0));
  card::set_seed(seed);
  const AttentionRows rows{tokens,
                           shape.heads,
                           {shape.kv_heads, shape.head_dim},
                           queries.data(),
                           cache.card(),
                           card_begins.data(),
                           card_ends.data(),
                           0,
                           score_scale,
                           out.data()};
  ASSERT_TRUE(attention_prompt(rows, failed.data(), nullptr).ok());
  ASSERT_TRUE(same_bits(out.values(), expected.out))
      << shape.heads << " heads of " << shape.head_dim << ", " << tokens << " tokens";
  ASSERT_EQ(failed.values(), expected.failed);
}

// Positions first .. first + count of a prompt; each sees at most `window` of them.
std::vector<std::array<std::uint32_t, 2>> prompt_rows(std::uint32_t first, std::uint32_t count,
                                                      std::uint32_t window = 1U << 20) {
  std::vector<std::array<std::uint32_t, 2>> visible;
  for (std::uint32_t i = first; i < first + count; ++i) {
    visible.push_back({i + 1 > window ? i + 1 - window : 0, i + 1});
  }
  return visible;
}

std::vector<float> queries_of(Generator& random, const Shape& shape) {
  const std::size_t n = shape.visible.size() * shape.heads * shape.head_dim;
  return shape.wild ? wild(random, n, -110, 36) : normals(random, n, 2.0F);
}

TEST(CudaAttention, EqualsTheScalarTable) {
  const Shape shapes[] = {{1, 1, 32, {{{0, 1}}}},
                          {4, 2, 64, {{{0, 33}}, {{5, 31}}, {{0, 256}}}},
                          {3, 1, 96, {{{0, 257}}, {{250, 258}}}},
                          {7, 1, 64, {{{31, 300}}, {{0, 2}}}},
                          {10, 1, 32, {{{0, 70}}, {{64, 65}}}},  // more heads than a block takes
                          {16, 2, 128, {{{0, 130}}}},
                          {2, 2, 256, {{{3, 40}}, {{0, 600}}}},
                          {1, 1, 512, {{{0, 35}}}},
                          {6, 1, 64, {{{0, 290}}, {{40, 90}}}, true},
                          {5, 1, 160, {{{0, 45}}}, true}};
  Generator random(1);
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes) {
    compare(random, shape, queries_of(random, shape), ++seed, shape.heads % 3);
    compare(random, shape, queries_of(random, shape), ++seed, kInSplits);
  }
}

// One block takes the whole of a context up to 1,024 positions, and up to 2,048 where there are
// many blocks with few heads each; beyond, contexts are split.
TEST(CudaAttention, ContextsOfOneBlockAndOfMany) {
  const Shape shapes[] = {{4, 1, 32, {{{0, 1024}}}},
                          {8, 1, 32, {{{3, 1000}}}},
                          {1, 1, 32, {{{0, 1025}}}},
                          {5, 1, 32, {{{0, 1030}}}},
                          {48, 48, 32, {{{90, 1120}}, {{0, 2}}}}};
  Generator random(11);
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes) {
    compare(random, shape, queries_of(random, shape), ++seed);
  }
}

TEST(CudaAttention, RowsOfAPromptEqualTheScalarTable) {
  const Shape shapes[] = {{1, 1, 32, prompt_rows(0, 1)},
                          {1, 1, 64, prompt_rows(0, 70)},  // more rows than a block takes
                          {4, 2, 64, prompt_rows(21, 19)},
                          {7, 1, 96, prompt_rows(0, 11)},  // a block's rows not full
                          {8, 2, 128, prompt_rows(90, 17)},
                          {2, 1, 160, prompt_rows(40, 3)},
                          {2, 2, 256, prompt_rows(60, 5)},
                          {1, 1, 512, prompt_rows(30, 4)},
                          {4, 1, 64, prompt_rows(100, 20, 37)},  // a window slides with the rows
                          {6, 2, 64, prompt_rows(250, 6), true},
                          {3, 1, 32, {{{0, 300}}, {{5, 6}}, {{64, 70}}, {{0, 1}}}},
                          // Scores of a block's rows beyond 512 positions are not kept.
                          {2, 1, 32, prompt_rows(508, 9)},
                          {5, 1, 128, prompt_rows(600, 2)},
                          {1, 1, 384, prompt_rows(520, 2)},
                          {2, 1, 64, {{{0, 1100}}, {{1090, 1095}}, {{30, 31}}, {{0, 513}}}}};
  Generator random(6);
  std::uint64_t seed = 0;
  for (const Shape& shape : shapes) {
    compare_prompt(random, shape, queries_of(random, shape), ++seed);
  }
}

TEST(CudaAttention, SeedsChangeNoBitOfAPrompt) {
  const Shape shape{4, 2, 64, prompt_rows(75, 18)};
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Generator random(7);
    compare_prompt(random, shape, queries_of(random, shape), seed);
  }
}

TEST(CudaAttention, RefusedQueriesOfAPromptGiveZerosForTheirKvHeadAlone) {
  const Shape shape{6, 2, 32, prompt_rows(20, 25)};
  Generator random(8);
  std::vector<float> query = queries_of(random, shape);
  const std::size_t wide = std::size_t{shape.heads} * shape.head_dim;
  query[0 * wide + 5] = NAN;                                             // kv head 0
  query[13 * wide + wide - 1] = INFINITY;                                // kv head 1
  query[24 * wide + 2 * 32] = std::nextafterf(kAttentionMax, INFINITY);  // kv head 0, last head
  query[7 * wide] = kAttentionMax;
  compare_prompt(random, shape, query, 4);
}

TEST(CudaAttention, VanishingValuesOfAPromptGiveZero) {
  const Shape shape{2, 1, 32, prompt_rows(30, 5), false, 1e-29F};
  Generator random(9);
  compare_prompt(random, shape, queries_of(random, shape), 1);
}

TEST(CudaAttention, SeedsChangeNoBit) {
  const Shape shape{4, 2, 64, {{{0, 530}}, {{200, 300}}}};
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Generator random(2);
    compare(random, shape, queries_of(random, shape), seed, seed % 2 * kInSplits);
  }
}

TEST(CudaAttention, RefusedQueriesGiveZerosForTheirKvHeadAlone) {
  const Shape shape{20, 2, 32, {{{0, 300}}, {{0, 10}}, {{0, 20}}, {{0, 9}}}};
  Generator random(3);
  std::vector<float> query = queries_of(random, shape);
  const std::size_t wide = std::size_t{shape.heads} * shape.head_dim;
  query[0 * wide + 5] = NAN;                                            // token 0, kv head 0
  query[1 * wide + wide - 1] = INFINITY;                                // token 1, kv head 1
  query[3 * wide + 9 * 32] = std::nextafterf(kAttentionMax, INFINITY);  // a later chunk's head
  query[2 * wide] = kAttentionMax;
  compare(random, shape, query, 4);
  compare(random, shape, query, 5, kInSplits);
}

// Values so small that the largest weighted scale counts as zero, though each has one.
TEST(CudaAttention, VanishingValuesGiveZero) {
  const Shape shape{2, 1, 32, {{{0, 300}}}, false, 1e-29F};
  Generator random(5);
  const Cache cache(random, shape);
  const std::vector<float> query = queries_of(random, shape);
  const Found expected = expected_of(shape, cache, query, 1.0F);
  ASSERT_EQ(expected.out, std::vector<float>(query.size(), 0.0F));
  compare(random, shape, query, 1);
  compare(random, shape, query, 2, kInSplits);
}

// A largest weighted scale of exactly what no longer counts as zero, and the number below it. The
// scale of a head's values is a 127th of their largest, and a lone position's weight is one.
TEST(CudaAttention, TheSmallestLargestValueCounts) {
  for (const float scale : {kTiny, std::nextafterf(kTiny, 0.0F)}) {
    const float most = scale * 127.0F;
    ASSERT_EQ(most / 127.0F, scale);
    for (const std::uint32_t end : {1U, 40U}) {
      Shape shape{2, 1, 32, {{{0, end}}, {{end - 1, end}}}, false, 1.0F, most};
      Generator random(10);
      const std::vector<float> query = queries_of(random, shape);
      const Cache cache(random, shape);
      const Found expected = expected_of(shape, cache, query, 1.0F);
      // Of the token that sees one position: zero below the edge, and at it not.
      EXPECT_EQ(expected.out.back() == 0.0F && expected.out[64] == 0.0F, scale < kTiny);
      compare(random, shape, query, 1);
      compare(random, shape, query, 3, kInSplits);
      compare_prompt(random, shape, query, 2);
    }
  }
}

TEST(CudaAttention, RefusesShapesItCannotMean) {
  AttentionRows rows;
  rows.tokens = 1;
  rows.pages_most = 1;
  rows.heads = 3;
  rows.layout = {2, 64};
  EXPECT_FALSE(attention(rows, {}, nullptr, nullptr).ok());
  rows.heads = 4;
  rows.layout.head_dim = 544;
  EXPECT_FALSE(attention(rows, {}, nullptr, nullptr).ok());
  rows.layout.head_dim = 64;
  rows.pages_most = 0;
  EXPECT_FALSE(attention(rows, {}, nullptr, nullptr).ok());
  rows.heads = 130;
  EXPECT_FALSE(attention_prompt(rows, nullptr, nullptr).ok());  // 65 of one kv head
  rows.heads = 3;
  EXPECT_FALSE(attention_prompt(rows, nullptr, nullptr).ok());
  rows.heads = 4;
  rows.tokens = 0;
  EXPECT_TRUE(attention(rows, {}, nullptr, nullptr).ok());
  EXPECT_TRUE(attention_prompt(rows, nullptr, nullptr).ok());
}

}  // namespace
}  // namespace hearth::kernels::cuda

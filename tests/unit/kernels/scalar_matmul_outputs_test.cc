// Uneven tensor parallelism: a row split between ranks at any block borders gives the bits of the
// whole product, whichever table computes a share and in whatever order the shares are added.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using namespace fixtures;  // NOLINT

std::vector<float> whole(const Kernels& table, const PackedMatrix& w, const QuantizedRows& x) {
  std::vector<float> out(std::size_t{x.rows} * w.rows(), -7.0F);
  table.matmul(w, x, 0, w.groups(), out.data(), w.rows());
  return out;
}

// `ranks` + 1 borders of shares that cover [0, blocks); some shares are empty.
std::vector<std::uint32_t> random_borders(Generator& random, std::uint32_t ranks,
                                          std::uint32_t blocks) {
  std::vector<std::uint32_t> borders(ranks + 1);
  for (std::uint32_t& border : borders) border = random() % (blocks + 1);
  if (ranks > 2 && random() % 2 == 0) borders[1] = borders[2];
  borders.front() = 0;
  borders.back() = blocks;
  std::sort(borders.begin(), borders.end());
  return borders;
}

struct Split {
  const PackedMatrix& w;
  const QuantizedRows& x;
  std::vector<std::uint32_t> borders;
};

// Every rank's grid sums, by the table that `table_of(rank)` gives.
template <typename TableOf>
std::vector<std::vector<std::int32_t>> shares_of(const Split& split, TableOf table_of) {
  std::vector<std::vector<std::int32_t>> shares;
  for (std::size_t rank = 0; rank + 1 < split.borders.size(); ++rank) {
    std::vector<std::int32_t> share(std::size_t{split.x.rows} * split.w.rows(), 0x5A5A5A5A);
    table_of(rank)->matmul_partial(split.w, split.x, 0, split.w.groups(), split.borders[rank],
                                   split.borders[rank + 1], share.data(), split.w.rows());
    if (split.borders[rank] == split.borders[rank + 1]) {
      EXPECT_TRUE(std::all_of(share.begin(), share.end(), [](auto v) { return v == 0; }));
    }
    shares.push_back(std::move(share));
  }
  return shares;
}

std::vector<float> outputs_of(const Split& split, std::vector<std::vector<std::int32_t>> shares,
                              Generator& random) {
  std::shuffle(shares.begin(), shares.end(), random);
  std::vector<std::int32_t> sums(shares.front().size(), 0);
  for (const auto& share : shares) {
    std::transform(sums.begin(), sums.end(), share.begin(), sums.begin(), std::plus<>());
  }
  for (const std::int32_t sum : sums) {
    EXPECT_LE(std::abs(sum), (1 << kGridBits) + static_cast<int>(split.borders.back()) * 64);
  }
  std::vector<float> out(sums.size(), -7.0F);
  grid_outputs(split.w, split.x, 0, split.w.groups(), sums.data(), out.data(), split.w.rows());
  return out;
}

class UnevenSplit : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(UnevenSplit, AddsUpToTheProduct) {
  Generator random(60 + GetParam());
  const auto tables = available_kernels();
  for (const WeightType type : kAllTypes) {
    for (int round = 0; round < 8; ++round) {
      const std::uint32_t rows = 1 + random() % 60;
      const std::uint32_t cols = columns_of(type, (1 + random() % 40) * kBlock);
      const std::uint32_t tokens = 1 + random() % 11;
      const bool extreme = round % 2 == 1;
      const PackedMatrix w = weights(random, type, rows, cols, extreme ? 15'000.0F : 0.01F);
      const auto x = activations(random, tokens, cols, extreme);
      const Split split = {w, x->view, random_borders(random, GetParam(), cols / kBlock)};
      const std::vector<float> expected = whole(*tables[0], w, x->view);
      for (const Kernels* table : tables) {
        const auto shares = shares_of(split, [&](std::size_t) { return table; });
        ASSERT_TRUE(same_bits(outputs_of(split, shares, random), expected))
            << table->name << " type " << static_cast<int>(type) << " rows " << rows << " cols "
            << cols << " tokens " << tokens;
      }
      const auto mixed =
          shares_of(split, [&](std::size_t) { return tables[random() % tables.size()]; });
      ASSERT_TRUE(same_bits(outputs_of(split, mixed, random), expected)) << "mixed tables";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, UnevenSplit, ::testing::Range(1U, 9U));

// Every share is the same integers on every table, so that ranks of different hardware may join.
TEST(GridSums, OfAnyShareAreTheSameOnEveryTable) {
  Generator random(70);
  const auto tables = available_kernels();
  for (const WeightType type : kAllTypes) {
    for (int round = 0; round < 6; ++round) {
      const std::uint32_t rows = 1 + random() % 40;
      const std::uint32_t blocks = columns_of(type, (1 + random() % 30) * kBlock) / kBlock;
      const PackedMatrix w = weights(random, type, rows, blocks * kBlock);
      const auto x = activations(random, 1 + random() % 9, blocks * kBlock, round % 2 == 1);
      const std::uint32_t begin = random() % blocks;
      const std::uint32_t end = begin + 1 + random() % (blocks - begin);
      std::vector<std::int32_t> expected;
      for (const Kernels* table : tables) {
        std::vector<std::int32_t> share(std::size_t{x->view.rows} * rows, -1);
        table->matmul_partial(w, x->view, 0, w.groups(), begin, end, share.data(), rows);
        if (expected.empty()) expected = share;
        ASSERT_EQ(share, expected) << table->name << " type " << static_cast<int>(type);
      }
    }
  }
}

// Groups and stride: what lies outside the rows asked for is left as it was.
TEST(GridOutputs, WriteTheirRowsOnly) {
  Generator random(71);
  const PackedMatrix w = weights(random, WeightType::kQ5_1, 37, 96);
  const auto x = activations(random, 3, 96);
  const Kernels* scalar = kernels_named("scalar").value();
  const std::vector<float> expected = whole(*scalar, w, x->view);
  std::vector<std::int32_t> sums(std::size_t{3} * 40, 12345);
  scalar->matmul_partial(w, x->view, 0, w.groups(), 0, 3, sums.data(), 40);
  std::vector<float> out(sums.size(), -7.0F);
  grid_outputs(w, x->view, 1, 3, sums.data(), out.data(), 40);
  for (std::uint32_t t = 0; t < 3; ++t) {
    for (std::uint32_t r = 0; r < 40; ++r) {
      const bool inside = r >= 16 && r < 37;
      ASSERT_EQ(out[t * 40 + r], inside ? expected[t * 37 + r] : -7.0F) << r;
    }
  }
}

}  // namespace
}  // namespace hearth::kernels

// The matrix product: its meaning against double precision, equality of bits between tables, and
// the invariances that integer sums give.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/kernels/file_weights.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using namespace fixtures;  // NOLINT

std::vector<float> run(const Kernels& table, const PackedMatrix& w, const QuantizedRows& x) {
  std::vector<float> out(std::size_t{x.rows} * w.rows(), -7.0F);
  table.matmul(w, x, 0, w.groups(), out.data(), w.rows());
  return out;
}

QuantizedRows one_row(const QuantizedRows& x, std::uint32_t t) {
  const std::size_t at = std::size_t{t} * (x.cols / kBlock);
  return {1,
          x.cols,
          x.values + at * kBlock,
          x.scales + at,
          x.sums + at,
          x.block_sums + at,
          x.exponents + t};
}

struct Shape {
  std::uint32_t rows;
  std::uint32_t cols;
  std::uint32_t tokens;
};

constexpr Shape kShapes[] = {{1, 32, 1},     {15, 64, 2},  {16, 96, 3},    {17, 32, 7},
                             {33, 256, 8},   {48, 576, 9}, {100, 320, 16}, {31, 1536, 5},
                             {64, 2048, 33}, {5, 4096, 4}, {130, 192, 11}};

TEST(Matmul, EveryTableComputesTheSameBits) {
  const Kernels* scalar = kernels_named("scalar").value();
  for (const WeightType type : kAllTypes) {
    for (const Shape& shape : kShapes) {
      for (const bool extreme : {false, true}) {
        Generator random(shape.rows * 7 + shape.cols + (extreme ? 1 : 0));
        const std::uint32_t cols = columns_of(type, shape.cols);
        const PackedMatrix w = weights(random, type, shape.rows, cols, extreme ? 15'000.0F : 0.01F);
        const auto x = activations(random, shape.tokens, cols, extreme);
        const std::vector<float> expected = run(*scalar, w, x->view);
        for (const Kernels* table : available_kernels()) {
          if (table == scalar) continue;
          ASSERT_TRUE(same_bits(run(*table, w, x->view), expected))
              << table->name << " type " << static_cast<int>(type) << " rows " << shape.rows
              << " cols " << cols << " tokens " << shape.tokens;
        }
      }
    }
  }
}

// Against the product of the dequantised values in double: the grid loses at most half a step of
// 2^-30 of (row bound x token bound) a block, the float operations a few units of the last place.
TEST(Matmul, IsTheProductOfTheDequantisedValues) {
  for (const Kernels* table : available_kernels()) {
    for (const WeightType type : kAllTypes) {
      Generator random(3);
      const std::uint32_t cols = columns_of(type, 576);
      const PackedMatrix w = weights(random, type, 40, cols);
      const auto x = activations(random, 3, cols);
      const std::vector<float> out = run(*table, w, x->view);
      std::vector<float> row(cols);
      for (std::uint32_t r = 0; r < w.rows(); ++r) {
        table->dequantize_row(w, r, row.data());
        double magnitude = 0;
        for (const float v : row) magnitude += std::abs(v);
        ASSERT_LE(magnitude, std::ldexp(1.0, w.row_exponents()[r]));
        for (std::uint32_t t = 0; t < 3; ++t) {
          const double unit = std::ldexp(1.0, x->exponents[t] - kGridBits);
          double exact = 0;
          for (std::uint32_t k = 0; k < cols; ++k) {
            const std::size_t at = std::size_t{t} * cols + k;
            exact += double{row[k]} * x->values[at] * x->scales[at / kBlock] * unit;
          }
          const double bound = std::ldexp(1.0, w.row_exponents()[r] + x->exponents[t]);
          ASSERT_NEAR(out[t * w.rows() + r], exact, bound * 0x1p-23 + std::abs(exact) * 0x1p-22);
        }
      }
    }
  }
}

TEST(Matmul, ATokensResultDoesNotDependOnItsBatch) {
  for (const Kernels* table : available_kernels()) {
    for (const WeightType type : kAllTypes) {
      Generator random(4);
      const std::uint32_t cols = columns_of(type, 288);
      const PackedMatrix w = weights(random, type, 50, cols);
      const auto x = activations(random, 21, cols);
      const std::vector<float> together = run(*table, w, x->view);
      for (std::uint32_t t = 0; t < 21; ++t) {
        const std::vector<float> alone = run(*table, w, one_row(x->view, t));
        ASSERT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + t * 50));
      }
    }
  }
}

TEST(Matmul, GroupRangesWriteTheirRowsOnly) {
  Generator random(5);
  const PackedMatrix w = weights(random, WeightType::kQ4_1, 77, 128);
  const auto x = activations(random, 5, 128);
  for (const Kernels* table : available_kernels()) {
    const std::vector<float> whole = run(*table, w, x->view);
    std::vector<float> out(std::size_t{5} * 80, -7.0F);
    table->matmul(w, x->view, 1, 3, out.data(), 80);
    for (std::uint32_t t = 0; t < 5; ++t) {
      for (std::uint32_t r = 0; r < 80; ++r) {
        const bool inside = r >= 16 && r < 48;
        ASSERT_EQ(out[t * 80 + r], inside ? whole[t * 77 + r] : -7.0F) << r;
      }
    }
  }
}

// The largest sums there can be: every weight and activation at its extreme and of one sign.
TEST(Matmul, TheLargestSumsDoNotOverflow) {
  const std::uint32_t cols = 8192;
  for (const WeightType type : kAllTypes) {
    for (const int fill : {0x00, 0x7F, 0x80, 0xFF}) {
      Generator random(7);
      Bytes bytes = weight_blocks(random, type, 1, cols);
      const std::size_t block_bytes = PackedMatrix::file_block_bytes(type);
      for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
        if (is_floating(type)) {
          for (std::size_t i = 0; i < block_bytes; i += block_bytes / kBlock) {
            put_float(type, fill < 0x80 ? 65504.0F : -65504.0F, &bytes[at + i]);
          }
          continue;
        }
        std::memset(bytes.data() + at, fill, block_bytes);
        for (const std::size_t offset : half_offsets(type)) {
          put_scale(type, 65504.0F, bytes.data() + at + offset);
        }
      }
      const PackedMatrix w = PackedMatrix::pack(type, 1, cols, bytes).value();
      double sum = 0;
      for (std::uint32_t k = 0; k < cols; ++k) sum += file_weight(type, bytes.data(), k).value();
      for (const float value : {1.0F, -1.0F, 1.9999999F}) {
        Activations x(1, cols);
        const std::vector<float> row(cols, value);
        ASSERT_TRUE(kernels_named("scalar").value()->quantize(row.data(), x.view, 0));
        for (const Kernels* table : available_kernels()) {
          const std::vector<float> out = run(*table, w, x.view);
          EXPECT_NEAR(out[0], sum * value, std::abs(sum * value) * 1e-6) << table->name;
        }
      }
    }
  }
}

TEST(PackedMatrix, RefusesWhatItCannotMean) {
  Generator random(9);
  Bytes file = weight_blocks(random, WeightType::kQ4_1, 4, 64);
  EXPECT_FALSE(PackedMatrix::pack(WeightType::kQ4_1, 4, 48, file).ok());
  EXPECT_FALSE(PackedMatrix::pack(WeightType::kQ4_1, 0, 64, {}).ok());
  EXPECT_FALSE(PackedMatrix::pack(WeightType::kQ4_1, 4, 0, {}).ok());
  EXPECT_FALSE(PackedMatrix::pack(WeightType::kQ4_1, 5, 64, file).ok());
  EXPECT_FALSE(
      PackedMatrix::pack(WeightType::kQ4_1, 4, 64, ByteSpan(file).first(file.size() - 1)).ok());
  EXPECT_TRUE(PackedMatrix::pack(WeightType::kQ4_1, 4, 64, file).ok());
  for (const std::size_t offset : {0U, 2U}) {  // scale, minimum
    Bytes bad = file;
    const std::uint16_t infinity = 0xFC00;
    std::memcpy(bad.data() + (2 * 2 + 1) * 20 + offset, &infinity, 2);
    const auto packed = PackedMatrix::pack(WeightType::kQ4_1, 4, 64, bad);
    ASSERT_FALSE(packed.ok());
    EXPECT_EQ(packed.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(packed.error().message.find("block 1 of row 2"), std::string::npos);
  }
}

TEST(PackedMatrix, RowExponentsAreTheSmallestThatBound) {
  Bytes file(4 * 34);
  const std::uint16_t scales[] = {0, 0x0001, 0x3C00, 0x3C00};  // 0, 2^-24, 1, 1
  for (int row = 0; row < 4; ++row) {
    std::memcpy(file.data() + row * 34, &scales[row], 2);
    file[static_cast<std::size_t>(row) * 34 + 2] = static_cast<std::byte>(row == 3 ? -65 : 64);
  }
  const PackedMatrix w = PackedMatrix::pack(WeightType::kQ8_0, 4, 32, file).value();
  EXPECT_EQ(w.row_exponents()[0], kWeightExponentMin);
  EXPECT_EQ(w.row_exponents()[1], 6 - 24);
  EXPECT_EQ(w.row_exponents()[2], 6);
  EXPECT_EQ(w.row_exponents()[3], 7);
  EXPECT_EQ(w.row_exponents()[15], kWeightExponentMin);
}

}  // namespace
}  // namespace hearth::kernels

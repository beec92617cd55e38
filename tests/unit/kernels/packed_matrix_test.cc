#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "tests/unit/kernels/file_weights.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using fixtures::file_weight;
using fixtures::kAllTypes;

std::vector<float> dequantised(const PackedMatrix& matrix, std::uint32_t row) {
  std::vector<float> out(matrix.cols());
  kernels_named("scalar").value()->dequantize_row(matrix, row, out.data());
  return out;
}

// A value of the file is a product and a sum of two numbers that double holds exactly, so the fp32
// result has one right value where the product needs no more than 24 bits, which holds for all.
TEST(PackedMatrix, KeepsTheMeaningOfEveryWeightInEveryTypeAndShape) {
  fixtures::Generator random(5);
  for (const WeightType type : kAllTypes) {
    for (const std::uint32_t rows : {1U, 15U, 16U, 17U, 33U}) {
      for (const std::uint32_t least : {32U, 96U, 512U}) {
        const std::uint32_t cols = fixtures::columns_of(type, least);
        const Bytes bytes = fixtures::weight_blocks(random, type, rows, cols, 3.0F);
        const auto matrix = PackedMatrix::pack(type, rows, cols, bytes);
        ASSERT_TRUE(matrix.ok());
        ASSERT_EQ(matrix->groups(), (rows + 15) / 16);
        for (std::uint32_t row = 0; row < rows; ++row) {
          const std::byte* file = bytes.data() + bytes.size() / rows * row;
          const std::vector<float> found = dequantised(*matrix, row);
          for (std::uint32_t column = 0; column < cols; ++column) {
            ASSERT_EQ(found[column], static_cast<float>(file_weight(type, file, column).value()))
                << "type " << static_cast<int>(type) << " row " << row << " column " << column;
          }
        }
      }
    }
  }
}

TEST(PackedMatrix, PaddingRowsAreZero) {
  fixtures::Generator random(6);
  for (const WeightType type : kAllTypes) {
    const auto matrix = fixtures::weights(random, type, 19, 256);
    for (std::uint32_t row = 19; row < 32; ++row) {
      for (const float value : dequantised(matrix, row)) ASSERT_EQ(value, 0.0F);
      ASSERT_EQ(matrix.row_exponents()[row], kWeightExponentMin);
    }
  }
}

TEST(PackedMatrix, APartBorrowsRowsOfTheWhole) {
  fixtures::Generator random(7);
  for (const WeightType type : kAllTypes) {
    const auto whole = fixtures::weights(random, type, 64, 256);
    const PackedMatrix part = whole.part(16, 48);
    EXPECT_EQ(part.rows(), 32U);
    EXPECT_EQ(part.cols(), 256U);
    EXPECT_EQ(part.group(0), whole.group(1));
    EXPECT_EQ(part.bytes(), whole.bytes() / 2);
    for (std::uint32_t row = 0; row < 32; ++row) {
      ASSERT_EQ(dequantised(part, row), dequantised(whole, 16 + row));
      ASSERT_EQ(part.row_exponents()[row], whole.row_exponents()[16 + row]);
    }
  }
}

TEST(PackedMatrix, EveryTableDequantisesAlike) {
  fixtures::Generator random(16);
  for (const WeightType type : kAllTypes) {
    const auto matrix = fixtures::weights(random, type, 19, 512, 3.0F);
    for (const Kernels* table : available_kernels()) {
      for (std::uint32_t row = 0; row < 19; ++row) {
        std::vector<float> out(512);
        table->dequantize_row(matrix, row, out.data());
        ASSERT_TRUE(fixtures::same_bits(out, dequantised(matrix, row))) << table->name;
      }
    }
  }
}

TEST(PackedMatrix, RowExponentsBoundTheSumOfMagnitudes) {
  fixtures::Generator random(7);
  for (const WeightType type : kAllTypes) {
    for (const float scale : {1e-7F, 0.01F, 3.0F, 60000.0F}) {
      const std::uint32_t rows = 18;
      const std::uint32_t cols = fixtures::columns_of(type, 160);
      const Bytes bytes = fixtures::weight_blocks(random, type, rows, cols, scale);
      const auto matrix = PackedMatrix::pack(type, rows, cols, bytes).value();
      for (std::uint32_t row = 0; row < rows; ++row) {
        const std::byte* file = bytes.data() + bytes.size() / rows * row;
        double bound = 0;  // of |product| + |minimum|, exact in double
        double largest = 0;
        for (std::uint32_t column = 0; column < cols; ++column) {
          if (type == WeightType::kMXFP4 && column % kBlock == 0) {  // each block is rounded up
            bound = std::ldexp(std::ceil(std::ldexp(bound, 24)), -24);
          }
          const auto weight = file_weight(type, file, column);
          bound += weight.bound();
          largest = std::max(largest, weight.bound());
        }
        if (fixtures::is_floating(type)) {  // rounded up twice, to powers of two
          bound = std::exp2(std::ceil(std::log2(largest))) * std::exp2(std::ceil(std::log2(cols)));
        }
        if (type == WeightType::kMXFP4) bound = std::ldexp(std::ceil(std::ldexp(bound, 24)), -24);
        const int exponent = matrix.row_exponents()[row];
        EXPECT_LE(bound, std::ldexp(1.0, exponent));
        if (exponent > kWeightExponentMin) {
          EXPECT_GT(bound, std::ldexp(1.0, exponent - 1));
        }
      }
    }
  }
}

// Rows of one non-zero weight: the exponent is that of the weight itself, to the bit.
TEST(PackedMatrix, RowExponentsAreTightAtPowersOfTwo) {
  const std::size_t block = PackedMatrix::file_block_bytes(WeightType::kQ8_0);
  const auto exponent_of = [&](std::uint16_t half, int quant) {
    Bytes bytes(block);
    std::memcpy(bytes.data(), &half, 2);
    bytes[9] = static_cast<std::byte>(quant);
    return PackedMatrix::pack(WeightType::kQ8_0, 1, 32, bytes)->row_exponents()[0];
  };
  EXPECT_EQ(exponent_of(0x3C00, 1), 0);     // 1
  EXPECT_EQ(exponent_of(0x3C01, 1), 1);     // a little more
  EXPECT_EQ(exponent_of(0xBC00, 1), 0);     // -1
  EXPECT_EQ(exponent_of(0x3C00, -128), 7);  // the quant that our quantiser never makes
  EXPECT_EQ(exponent_of(0x3C00, 127), 7);
  EXPECT_EQ(exponent_of(0x0001, 1), -24);  // the smallest half
  EXPECT_EQ(exponent_of(0x0001, 2), -23);
  EXPECT_EQ(exponent_of(0x0000, 127), kWeightExponentMin);
  EXPECT_EQ(exponent_of(0x7BFF, 1), 16);  // 65504
}

// A row of one block with all of MXFP4's scales: its exponent and its weights, to the bit.
TEST(PackedMatrix, PowersOfTwoAreScalesUpToTheirLimit) {
  for (int power = 0; power < 256; ++power) {
    Bytes bytes(17, std::byte{0x97});  // 12 and -1
    bytes[0] = static_cast<std::byte>(power);
    const auto matrix = PackedMatrix::pack(WeightType::kMXFP4, 1, 32, bytes);
    if (power > 188) {
      ASSERT_FALSE(matrix.ok());
      EXPECT_EQ(matrix.error().message,
                "the scale of block 0 of row 0 of a weight matrix is above 2^60 (its byte must be "
                "at most 188)");
      continue;
    }
    ASSERT_TRUE(matrix.ok()) << power;
    EXPECT_EQ(dequantised(*matrix, 0)[0], std::ldexp(12.0F, power - 128));
    EXPECT_EQ(dequantised(*matrix, 0)[31], std::ldexp(-1.0F, power - 128));
    // 16 * 13 units are below 2^8, and a sum below one step of 2^-24 is rounded up to it.
    EXPECT_EQ(matrix->row_exponents()[0], std::max(-24, power - 128 + 8)) << power;
  }
}

TEST(PackedMatrix, RefusesEveryScaleThatIsNotFiniteAndSaysWhere) {
  fixtures::Generator random(8);
  for (const WeightType type : kAllTypes) {
    if (fixtures::is_floating(type)) continue;
    const std::uint32_t cols = 3 * PackedMatrix::file_block_columns(type);
    const Bytes good = fixtures::weight_blocks(random, type, 3, cols);
    const std::size_t block = PackedMatrix::file_block_bytes(type);
    for (const std::uint16_t bad : {0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFFFF}) {
      for (std::size_t at = 0; at < 9; ++at) {
        for (const std::size_t offset : fixtures::half_offsets(type)) {
          Bytes bytes = good;
          fixtures::put_refused_scale(type, bad, bytes.data() + at * block + offset);
          const auto refused = PackedMatrix::pack(type, 3, cols, bytes);
          ASSERT_FALSE(refused.ok());
          EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
          const std::string where =
              "block " + std::to_string(at % 3) + " of row " + std::to_string(at / 3);
          EXPECT_NE(refused.error().message.find(where), std::string::npos)
              << refused.error().message;
        }
      }
    }
  }
}

TEST(PackedMatrix, RefusesFloatingWeightsThatAreNotFiniteOrTooLarge) {
  fixtures::Generator random(9);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
    const Bytes good = fixtures::weight_blocks(random, type, 2, 64);
    for (const float bad : {infinity, -infinity, std::nanf(""), 0x1.02p64F}) {
      Bytes bytes = good;
      fixtures::put_float(type, bad, &bytes[bytes.size() / 2 + 40 * (bytes.size() / 128)]);
      const auto refused = PackedMatrix::pack(type, 2, 64, bytes);
      ASSERT_FALSE(refused.ok());
      EXPECT_NE(refused.error().message.find("block 1 of row 1"), std::string::npos);
    }
  }
}

TEST(PackedMatrix, RefusesSizesThatDoNotFit) {
  for (const WeightType type : kAllTypes) {
    const std::uint32_t width = PackedMatrix::file_block_columns(type);
    const std::size_t block = PackedMatrix::file_block_bytes(type);
    const Bytes bytes(block * 6);
    EXPECT_TRUE(PackedMatrix::pack(type, 2, 3 * width, bytes).ok());
    EXPECT_TRUE(PackedMatrix::pack(type, 6, width, bytes).ok());
    const std::pair<std::uint32_t, std::uint32_t> shapes[] = {{0, width},
                                                              {6, 0},
                                                              {5, width},
                                                              {7, width},
                                                              {2, 2 * width},
                                                              {2, 3 * width - 1},
                                                              {2, 3 * width + 1},
                                                              {6, width - 1},
                                                              {0xFFFFFFFF, width},
                                                              {0xFFFFFFFF, 0xFFFFFF00},
                                                              {0x80000000, 0x80000000},
                                                              {1, 0xFFFFFF00}};
    for (const auto& [rows, cols] : shapes) {
      const auto refused = PackedMatrix::pack(type, rows, cols, bytes);
      ASSERT_FALSE(refused.ok()) << rows << " x " << cols;
      EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput) << rows << " x " << cols;
    }
    EXPECT_FALSE(PackedMatrix::pack(type, 2, 3 * width, ByteSpan(bytes).first(block * 6 - 1)).ok());
    EXPECT_FALSE(PackedMatrix::pack(type, 1, 32, {}).ok());
  }
}

}  // namespace
}  // namespace hearth::kernels

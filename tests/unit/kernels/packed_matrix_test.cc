#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "kernels/matrix_view.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

constexpr WeightType kTypes[] = {WeightType::kQ8_0, WeightType::kQ4_0, WeightType::kQ4_1};

// fp16 by its definition.
double half_value(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t half_at(const std::byte* bytes) {
  return static_cast<std::uint16_t>(std::to_integer<int>(bytes[0]) | std::to_integer<int>(bytes[1])
                                                                         << 8);
}

struct Weight {
  int quant = 0;  // the multiplier of the scale
  std::uint16_t scale = 0;
  std::uint16_t minimum = 0;
};

// Weight `k` of a block as the file format defines it, read without anything of ours.
Weight file_weight(WeightType type, const std::byte* block, std::uint32_t k) {
  Weight weight;
  weight.scale = half_at(block);
  if (type == WeightType::kQ8_0) {
    const int byte = std::to_integer<int>(block[2 + k]);
    weight.quant = byte < 128 ? byte : byte - 256;
    return weight;
  }
  const int header = type == WeightType::kQ4_1 ? 4 : 2;
  if (type == WeightType::kQ4_1) weight.minimum = half_at(block + 2);
  const int byte = std::to_integer<int>(block[header + k % 16]);
  weight.quant = k < 16 ? byte & 15 : byte >> 4;
  if (type == WeightType::kQ4_0) weight.quant -= 8;
  return weight;
}

// The same weight through the documented layout of a group block.
Weight packed_weight(const PackedMatrix& matrix, std::uint32_t row, std::uint32_t column) {
  const WeightType type = matrix.type();
  const std::uint32_t r = row % 16;
  const std::uint32_t k = column % 32;
  const std::byte* block =
      matrix.group(row / 16) + column / 32 * PackedMatrix::group_block_bytes(type);
  Weight weight;
  weight.scale = half_at(block + r * 2);
  block += 32;
  if (type == WeightType::kQ4_1) {
    weight.minimum = half_at(block + r * 2);
    block += 32;
  }
  if (type == WeightType::kQ8_0) {
    weight.quant = std::to_integer<int>(block[k / 4 * 64 + r * 4 + k % 4]) - 128;
    return weight;
  }
  const int byte = std::to_integer<int>(block[k / 4 % 4 * 64 + r * 4 + k % 4]);
  weight.quant = (k < 16 ? byte & 15 : byte >> 4) - (type == WeightType::kQ4_0 ? 8 : 0);
  return weight;
}

double value_of(const Weight& weight) {
  return weight.quant * half_value(weight.scale) + half_value(weight.minimum);
}

TEST(PackedMatrix, KeepsTheMeaningOfEveryWeightInEveryTypeAndShape) {
  fixtures::Generator random(5);
  for (const WeightType type : kTypes) {
    for (const std::uint32_t rows : {1U, 15U, 16U, 17U, 33U}) {
      for (const std::uint32_t cols : {32U, 96U}) {
        const Bytes bytes = fixtures::weight_blocks(random, type, rows, cols);
        const auto matrix = PackedMatrix::pack(type, rows, cols, bytes);
        ASSERT_TRUE(matrix.ok());
        ASSERT_EQ(matrix->groups(), (rows + 15) / 16);
        const std::size_t block_bytes = PackedMatrix::file_block_bytes(type);
        for (std::uint32_t row = 0; row < rows; ++row) {
          for (std::uint32_t column = 0; column < cols; ++column) {
            const std::byte* block =
                bytes.data() + (std::size_t{row} * (cols / 32) + column / 32) * block_bytes;
            const Weight expected = file_weight(type, block, column % 32);
            const Weight found = packed_weight(*matrix, row, column);
            ASSERT_EQ(found.quant, expected.quant) << row << " " << column;
            ASSERT_EQ(found.scale, expected.scale);
            ASSERT_EQ(found.minimum, expected.minimum);
          }
        }
        for (std::uint32_t row = rows; row < matrix->groups() * 16; ++row) {
          for (std::uint32_t column = 0; column < cols; ++column) {
            ASSERT_EQ(value_of(packed_weight(*matrix, row, column)), 0.0);
            ASSERT_EQ(packed_weight(*matrix, row, column).quant, 0);
          }
        }
      }
    }
  }
}

// One fused multiply and add in double is exact here, so the fp32 result has one right value.
TEST(PackedMatrix, DequantisesToTheDefinedValuesInEveryTable) {
  fixtures::Generator random(6);
  for (const WeightType type : kTypes) {
    const Bytes bytes = fixtures::weight_blocks(random, type, 19, 64, 3.0F);
    const auto matrix = PackedMatrix::pack(type, 19, 64, bytes);
    ASSERT_TRUE(matrix.ok());
    for (const Kernels* table : available_kernels()) {
      for (std::uint32_t row = 0; row < 19; ++row) {
        auto out = fixtures::aligned<float>(64);
        table->dequantize_row(*matrix, row, out.get());
        for (std::uint32_t column = 0; column < 64; ++column) {
          const double exact = value_of(packed_weight(*matrix, row, column));
          ASSERT_EQ(out[column], static_cast<float>(exact)) << table->name << " " << column;
        }
      }
    }
  }
}

TEST(PackedMatrix, RowExponentsBoundTheSumOfMagnitudes) {
  fixtures::Generator random(7);
  for (const WeightType type : kTypes) {
    for (const float scale : {1e-7F, 0.01F, 3.0F, 60000.0F}) {
      const std::uint32_t rows = 18;
      const std::uint32_t cols = 160;
      const auto matrix = fixtures::weights(random, type, rows, cols, scale);
      for (std::uint32_t row = 0; row < rows; ++row) {
        double sum = 0;    // of |w|
        double bound = 0;  // of |q| * |scale| + |minimum|, exact in double
        for (std::uint32_t column = 0; column < cols; ++column) {
          const Weight weight = packed_weight(matrix, row, column);
          sum += std::abs(value_of(weight));
          bound += std::abs(weight.quant * half_value(weight.scale)) +
                   std::abs(half_value(weight.minimum));
        }
        const int exponent = matrix.row_exponents()[row];
        EXPECT_LE(sum, std::ldexp(1.0, exponent));
        EXPECT_LE(bound, std::ldexp(1.0, exponent));
        if (exponent > kWeightExponentMin) {
          EXPECT_GT(bound, std::ldexp(1.0, exponent - 1));
        }
      }
      for (std::uint32_t row = rows; row < 32; ++row) {
        EXPECT_EQ(matrix.row_exponents()[row], kWeightExponentMin);
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

TEST(PackedMatrix, RefusesEveryScaleThatIsNotFiniteAndSaysWhere) {
  fixtures::Generator random(8);
  for (const WeightType type : kTypes) {
    const Bytes good = fixtures::weight_blocks(random, type, 3, 96);
    const std::size_t block = PackedMatrix::file_block_bytes(type);
    for (const std::uint16_t bad : {0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFFFF}) {
      for (std::size_t at = 0; at < 9; ++at) {
        for (std::size_t place = 0; place < (type == WeightType::kQ4_1 ? 2U : 1U); ++place) {
          Bytes bytes = good;
          std::memcpy(bytes.data() + at * block + place * 2, &bad, 2);
          const auto refused = PackedMatrix::pack(type, 3, 96, bytes);
          ASSERT_FALSE(refused.ok());
          EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
          EXPECT_NE(refused.error().message.find("block " + std::to_string(at % 3)),
                    std::string::npos)
              << refused.error().message;
          EXPECT_NE(refused.error().message.find("row " + std::to_string(at / 3)),
                    std::string::npos)
              << refused.error().message;
        }
      }
    }
  }
}

TEST(PackedMatrix, RefusesSizesThatDoNotFit) {
  for (const WeightType type : kTypes) {
    const std::size_t block = PackedMatrix::file_block_bytes(type);
    const Bytes bytes(block * 6);
    EXPECT_TRUE(PackedMatrix::pack(type, 2, 96, bytes).ok());
    EXPECT_TRUE(PackedMatrix::pack(type, 6, 32, bytes).ok());
    const std::pair<std::uint32_t, std::uint32_t> shapes[] = {{0, 32},
                                                              {6, 0},
                                                              {5, 32},
                                                              {7, 32},
                                                              {2, 64},
                                                              {2, 95},
                                                              {2, 97},
                                                              {6, 31},
                                                              {0xFFFFFFFF, 32},
                                                              {0xFFFFFFFF, 0xFFFFFFE0},
                                                              {0x80000000, 0x80000000},
                                                              {1, 0xFFFFFFE0}};
    for (const auto& [rows, cols] : shapes) {
      const auto refused = PackedMatrix::pack(type, rows, cols, bytes);
      ASSERT_FALSE(refused.ok()) << rows << " x " << cols;
      EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput) << rows << " x " << cols;
    }
    EXPECT_FALSE(PackedMatrix::pack(type, 2, 96, ByteSpan(bytes).first(block * 6 - 1)).ok());
    EXPECT_FALSE(PackedMatrix::pack(type, 1, 32, {}).ok());
  }
}

}  // namespace
}  // namespace hearth::kernels

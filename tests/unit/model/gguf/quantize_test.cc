#include "model/gguf/quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/model/dequantize.h"

namespace hearth::model {
namespace {

TEST(Half, EveryFiniteHalfComesBack) {
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const float value = float_from_half(static_cast<std::uint16_t>(half));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_from_half(half_from_float(value))));
      continue;
    }
    ASSERT_EQ(half_from_float(value), half);
  }
}

TEST(Half, TiesGoToEvenAndNeighboursToTheNearest) {
  for (std::uint32_t half = 0; half + 1 < 0x7C00; ++half) {
    const float low = float_from_half(static_cast<std::uint16_t>(half));
    const float high = float_from_half(static_cast<std::uint16_t>(half + 1));
    const float middle = (low + high) / 2;  // exact: one bit more than a half has
    const std::uint32_t even = half % 2 == 0 ? half : half + 1;
    ASSERT_EQ(half_from_float(middle), even);
    ASSERT_EQ(half_from_float(std::nextafter(middle, 0.0F)), half);
    ASSERT_EQ(half_from_float(std::nextafter(middle, 1e6F)), half + 1);
    ASSERT_EQ(half_from_float(-middle), even | 0x8000U);
  }
}

TEST(Half, EndsOfTheRange) {
  EXPECT_EQ(half_from_float(65504.0F), 0x7BFF);
  EXPECT_EQ(half_from_float(65519.996F), 0x7BFF);
  EXPECT_EQ(half_from_float(65520.0F), 0x7C00);
  EXPECT_EQ(half_from_float(-1e30F), 0xFC00);
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(half_from_float(0x1p-25F), 0);  // the tie between 0 and the smallest
  EXPECT_EQ(half_from_float(std::nextafter(0x1p-25F, 1.0F)), 1);
  EXPECT_EQ(half_from_float(-0.0F), 0x8000);
}

class QuantizeRows : public ::testing::TestWithParam<TensorType> {};

TEST_P(QuantizeRows, EveryValueIsWithinHalfAStep) {
  const TensorType type = GetParam();
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> row(64);
    for (float& value : row) value = normal(random) * 0.1F;
    Bytes packed(row_bytes(type, row.size()));
    ASSERT_TRUE(quantize_row(type, row, packed).ok());
    std::vector<float> back(row.size());
    ASSERT_TRUE(dequantize_row(type, packed, back).ok());
    const std::size_t block_bytes = packed.size() / 2;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float scale = std::fabs(
          float_from_half(std::to_integer<std::uint16_t>(packed[i / 32 * block_bytes]) |
                          (std::to_integer<std::uint16_t>(packed[i / 32 * block_bytes + 1]) << 8)));
      // Half a step, and a whole one at the end of the range, where the code is clamped.
      const bool clamped = type == TensorType::kQ4_0;
      EXPECT_LE(std::fabs(back[i] - row[i]), scale * (clamped ? 1.01F : 0.51F));
    }
  }
}

TEST_P(QuantizeRows, ValuesOnTheGridAreExact) {
  const TensorType type = GetParam();
  const int low = type == TensorType::kQ8_0 ? -127 : type == TensorType::kQ4_0 ? -8 : 0;
  const int high = type == TensorType::kQ8_0 ? 127 : type == TensorType::kQ4_0 ? 7 : 15;
  std::vector<float> row(32);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const int steps = static_cast<int>(i) * 8 % (high - low + 1);
    row[i] = static_cast<float>(low + steps) * 0.25F;
  }
  row[5] = static_cast<float>(low) * 0.25F;
  row[6] = static_cast<float>(high) * 0.25F;
  Bytes packed(row_bytes(type, row.size()));
  ASSERT_TRUE(quantize_row(type, row, packed).ok());
  std::vector<float> back(row.size());
  ASSERT_TRUE(dequantize_row(type, packed, back).ok());
  EXPECT_EQ(back, row);
}

TEST_P(QuantizeRows, ZerosStayZero) {
  const std::vector<float> row(32, 0.0F);
  Bytes packed(row_bytes(GetParam(), row.size()));
  ASSERT_TRUE(quantize_row(GetParam(), row, packed).ok());
  std::vector<float> back(row.size(), 1.0F);
  ASSERT_TRUE(dequantize_row(GetParam(), packed, back).ok());
  for (const float value : back) EXPECT_EQ(value, 0.0F);
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizeRows,
                         ::testing::Values(TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1),
                         [](const auto& info) {
                           return tensor_type_name(static_cast<std::uint32_t>(info.param));
                         });

float mxfp4_value(const Bytes& block, std::size_t i) {
  constexpr float kValues[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const auto byte = std::to_integer<unsigned>(block[1 + i % 16]);
  return std::ldexp(kValues[i < 16 ? byte & 15U : byte >> 4], std::to_integer<int>(block[0]) - 128);
}

TEST(QuantizeMxfp4, EveryValueGetsTheNearestCodeOfItsBlock) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 150; ++round) {  // up to 2^50, of which the scale stays in range
    std::vector<float> row(32);
    for (float& value : row) value = std::ldexp(normal(random), round - 100);
    Bytes packed(17);
    ASSERT_TRUE(quantize_row(TensorType::kMXFP4, row, packed).ok());
    const float unit = std::ldexp(1.0F, std::to_integer<int>(packed[0]) - 128);
    float largest = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      const float code = std::fabs(row[i]) / unit;
      largest = std::max(largest, code);
      const float half_step = code <= 4 ? 0.5F : code <= 8 ? 1.0F : code <= 12 ? 2.0F : 4.0F;
      EXPECT_LE(std::fabs(mxfp4_value(packed, i) - row[i]), half_step * unit);
    }
    EXPECT_GE(largest, 8.0F);
    EXPECT_LT(largest, 16.0F);
  }
  const std::vector<float> zeros(32, 0.0F);
  Bytes packed(17, std::byte{0xFF});
  ASSERT_TRUE(quantize_row(TensorType::kMXFP4, zeros, packed).ok());
  EXPECT_EQ(packed, Bytes(17));
  const std::vector<float> huge(32, 3e38F);  // the scale stays one that is read
  ASSERT_TRUE(quantize_row(TensorType::kMXFP4, huge, packed).ok());
  EXPECT_EQ(std::to_integer<int>(packed[0]), 188);
}

TEST(Quantize, RefusesOtherTypesAndSizes) {
  std::vector<float> row(256);
  Bytes packed(144);
  EXPECT_EQ(quantize_row(TensorType::kQ4_K, row, packed).error().message,
            "Q4_K is not one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, MXFP4");
  EXPECT_FALSE(quantize_row(TensorType::kQ8_0, row, packed).ok());
  EXPECT_FALSE(dequantize_row(TensorType::kF32, packed, row).ok());
  EXPECT_FALSE(quantize_row(TensorType::kQ4_0, std::span(row).first(33), packed).ok());
}

}  // namespace
}  // namespace hearth::model

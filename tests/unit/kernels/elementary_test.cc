// The canonical function against independent arithmetic: libm in double, exact rules by hand.
#include "kernels/elementary.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

TEST(Elementary, RoundsToNearestEven) {
  EXPECT_EQ(round_even(0.5F), 0);
  EXPECT_EQ(round_even(1.5F), 2);
  EXPECT_EQ(round_even(2.5F), 2);
  EXPECT_EQ(round_even(-0.5F), 0);
  EXPECT_EQ(round_even(-1.5F), -2);
  EXPECT_EQ(round_even(-2.5F), -2);
  EXPECT_EQ(round_even(0x1p30F), 1 << 30);
  EXPECT_EQ(round_even(-0x1p30F), -(1 << 30));
  std::mt19937 random(1);
  std::uniform_real_distribution<float> values(-0x1p30F, 0x1p30F);
  for (int i = 0; i < 100'000; ++i) {
    const float x = values(random) * std::ldexp(1.0F, -static_cast<int>(random() % 31));
    ASSERT_EQ(round_even(x), static_cast<std::int32_t>(std::nearbyint(static_cast<double>(x))));
  }
}

TEST(Elementary, EveryHalfSurvivesAConversionToFloatAndBack) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    const float value = half_to_float(half);
    const int exponent = static_cast<int>((h >> 10) & 31U);
    if (exponent == 31) {
      ASSERT_FALSE(half_is_finite(half));
      ASSERT_FALSE(is_finite(value));
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(h & 1023U, -24) : std::ldexp(1024 + (h & 1023U), exponent - 25);
    ASSERT_EQ(value, (h & 0x8000U) != 0 ? -magnitude : magnitude);
    ASSERT_EQ(float_to_half(value), half);
  }
}

// Between two neighbouring halves: below the middle the lower, above it the upper, at it the even.
TEST(Elementary, FloatToHalfRoundsToNearestEven) {
  for (std::uint32_t h = 0; h < 0x7BFF; ++h) {
    const double low = half_to_float(static_cast<std::uint16_t>(h));
    const double high = half_to_float(static_cast<std::uint16_t>(h + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(float_to_half(middle), h + (h & 1U));
    ASSERT_EQ(float_to_half(std::nextafterf(middle, 0.0F)), h);
    ASSERT_EQ(float_to_half(std::nextafterf(middle, 1e9F)), h + 1);
  }
  EXPECT_EQ(float_to_half(65519.996F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(-65520.0F), 0xFC00);
  EXPECT_EQ(float_to_half(INFINITY), 0x7C00);
  EXPECT_FALSE(half_is_finite(float_to_half(NAN)));
}

TEST(Elementary, RowExponentIsTheSmallestPowerThatBounds) {
  EXPECT_EQ(row_exponent(0.0F), kExponentMin);
  EXPECT_EQ(row_exponent(0x1p-140F), kExponentMin);
  EXPECT_EQ(row_exponent(1.0F), 0);
  EXPECT_EQ(row_exponent(std::nextafterf(1.0F, 2.0F)), 1);
  EXPECT_EQ(row_exponent(0x1.fffffep127F), 128);
  EXPECT_EQ(row_exponent(0x1p127F), 127);
}

TEST(Elementary, Exp2IsWithinOneAndAHalfUnitsOfTheLastPlace) {
  EXPECT_EQ(exp2_canonical(0.0F), 1.0F);
  EXPECT_EQ(exp2_canonical(-0.0F), 1.0F);
  double worst = 0;
  for (float x = -126.0F; x <= 127.0F; x += 0x1p-12F) {
    const double exact = std::exp2(static_cast<double>(x));
    worst = std::max(worst, std::abs(exp2_canonical(x) - exact) / exact);
  }
  EXPECT_LT(worst, 0x1.8p-23);
  for (int n = -126; n <= 127; ++n) {
    EXPECT_EQ(exp2_canonical(static_cast<float>(n)), std::ldexp(1.0F, n));
  }
}

TEST(Elementary, Exp2IsDefinedEverywhere) {
  EXPECT_EQ(exp2_canonical(std::nextafterf(-126.0F, -127.0F)), 0.0F);
  EXPECT_EQ(exp2_canonical(-INFINITY), 0.0F);
  EXPECT_EQ(exp2_canonical(128.0F), 0x1p127F);
  EXPECT_EQ(exp2_canonical(INFINITY), 0x1p127F);
}

// Known answers of tests/oracle/canonical, every bit of them in one number: each of the
// polynomial's constants, one unit of the last place larger or smaller, changes it. (A whole model
// cannot tell: the residual's rounding to fp16 swallows such a difference nearly always.)
std::uint64_t checksum(std::uint64_t so_far, std::uint32_t bits) {
  return so_far * 0x100000001B3U + bits;
}

TEST(Elementary, Exp2HasTheBitsOfTheOracle) {
  std::uint64_t sum = 0;
  for (std::uint32_t k = 0; k < 1U << 21; ++k) {
    const float magnitude = 0.5F - static_cast<float>(k) * 0x1p-23F;
    const float y = exp2_canonical(k % 2 == 0 ? magnitude : -magnitude);
    sum = checksum(sum, std::bit_cast<std::uint32_t>(y));
  }
  EXPECT_EQ(sum, 0xA29E587D5D8460FU);
}

// One value in a block: its scale shows the activation's bits.
std::uint64_t activation_checksum(const Kernels& table, bool gelu) {
  fixtures::Activations row(1, kBlock);
  std::vector<float> gate(kBlock, 0.0F);
  const std::vector<float> up(kBlock, 1.0F);
  std::uint64_t sum = 0;
  for (int k = 0; k < 1 << 15; ++k) {
    gate[0] = static_cast<float>((k - (1 << 14)) * 0x1p-11 * (1 + 0x1p-12));
    (gelu ? table.geglu_quantize : table.swiglu_quantize)(gate.data(), up.data(), row.view, 0);
    sum = checksum(sum, std::bit_cast<std::uint32_t>(row.scales[0]));
    sum = checksum(sum, static_cast<std::uint32_t>(row.exponents[0]));
  }
  return sum;
}

TEST(Elementary, ActivationsHaveTheBitsOfTheOracle) {
  for (const Kernels* table : available_kernels()) {
    EXPECT_EQ(activation_checksum(*table, false), 0x179D678EAF27C97DU) << table->name;
    EXPECT_EQ(activation_checksum(*table, true), 0x449E624E3574197CU) << table->name;
  }
}

TEST(Elementary, SiluIsAccurateAndDefinedForExtremes) {
  for (float x = -80.0F; x <= 80.0F; x += 0x1p-8F) {
    const double exact = x / (1.0 + std::exp(-static_cast<double>(x)));
    ASSERT_NEAR(silu(x), exact, std::abs(exact) * (4e-7 + std::abs(x) * 0x1p-22)) << x;
  }
  EXPECT_EQ(silu(0.0F), 0.0F);
  EXPECT_EQ(silu(3e38F), 3e38F);
  EXPECT_EQ(silu(-200.0F), -200.0F * 0x1p-127F);
}

TEST(Gelu, IsCloseToTheTanhFormAndFiniteEverywhere) {
  for (float x = -10.0F; x < 12.0F; x += 0.0037F) {
    const double inner = std::sqrt(2.0 / M_PI) * (x + 0.044715 * double{x} * x * x);
    const double exact = x / (1.0 + std::exp(-2.0 * inner));
    // The relative error of 2^y grows with y, which the large part of the argument brings.
    ASSERT_NEAR(gelu(x), exact, std::abs(exact) * (4e-7 + std::abs(inner) * 0x1p-20)) << x;
  }
  EXPECT_EQ(gelu(0.0F), 0.0F);
  EXPECT_EQ(gelu(3e38F), 3e38F);
  EXPECT_EQ(gelu(-3e38F), -3e38F * 0x1p-127F);
}

TEST(Angles, SineAndCosineAreWithinAFloatRounding) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponents(-8.0, 0.0);
  for (int i = 0; i < 20'000; ++i) {
    const auto position = static_cast<std::uint32_t>(random() % 1'048'576);
    const std::array<double, 1> frequency = {std::pow(10.0, exponents(random))};
    std::array<float, 2> pair{};
    rope_table_row(position, frequency, 1.0, pair.data());
    const double angle = position * frequency[0];
    ASSERT_NEAR(pair[0], std::cos(angle), 0x1p-25 + 1e-10) << angle;
    ASSERT_NEAR(pair[1], std::sin(angle), 0x1p-25 + 1e-10) << angle;
  }
}

TEST(Angles, PositionZeroDoesNotTurn) {
  const std::array<double, 2> frequencies = {1.0, 0.25};
  std::array<float, 4> row{};
  rope_table_row(0, frequencies, 1.0, row.data());
  EXPECT_EQ(row, (std::array<float, 4>{1.0F, 0.0F, 1.0F, 0.0F}));
}

TEST(Angles, TheMagnitudeScalesBoth) {
  const std::array<double, 1> frequency = {0.75};
  std::array<float, 2> plain{};
  std::array<float, 2> twice{};
  rope_table_row(9, frequency, 1.0, plain.data());
  rope_table_row(9, frequency, 2.0, twice.data());
  EXPECT_EQ(twice[0], 2.0F * plain[0]);
  EXPECT_EQ(twice[1], 2.0F * plain[1]);
}

TEST(Angles, LogarithmIsAccurateToFifteenDigits) {
  for (const double x : {0x1p-1060, 1e-300, 0.3, 0.99, 1.001, 2.718281828, 40.0, 4096.0, 1e12}) {
    EXPECT_NEAR(log2_canonical(x), std::log2(x), 4e-16 * std::max(1.0, std::abs(std::log2(x))))
        << x;
  }
  EXPECT_EQ(log2_canonical(1.0), 0.0);
  EXPECT_EQ(log2_canonical(32.0), 5.0);
  for (const double bad : {0.0, -1.0, HUGE_VAL, std::nan("")}) {
    EXPECT_TRUE(std::isnan(log2_canonical(bad)));
  }
}

TEST(Angles, PowerIsAccurateToFifteenDigits) {
  for (const double base : {10'000.0, 100'000.0, 500'000.0, 1e6, 2.0, 0.3, 1e-300}) {
    for (int i = 0; i <= 256; ++i) {
      const double exponent = -static_cast<double>(i) / 128.0;
      const double exact = std::pow(base, exponent);
      if (exact > 1e300) continue;
      ASSERT_NEAR(pow_canonical(base, exponent) / exact, 1.0, base < 1e-9 ? 1e-12 : 2e-14)
          << base << "^" << exponent;
    }
  }
  EXPECT_EQ(pow_canonical(10'000.0, 0.0), 1.0);
  EXPECT_EQ(pow_canonical(2.0, 10.0), 1024.0);
}

TEST(Angles, PowerIsDefinedAtTheEnds) {
  EXPECT_EQ(pow_canonical(2.0, -1023.0), 0.0);
  EXPECT_EQ(pow_canonical(2.0, 1023.0), INFINITY);
  EXPECT_TRUE(std::isnan(pow_canonical(0.0, 1.0)));
  EXPECT_TRUE(std::isnan(pow_canonical(-1.0, 1.0)));
  EXPECT_TRUE(std::isnan(pow_canonical(INFINITY, 1.0)));
  EXPECT_TRUE(std::isnan(pow_canonical(2.0, INFINITY)));
  EXPECT_TRUE(std::isnan(pow_canonical(2.0, NAN)));
  EXPECT_NEAR(pow_canonical(0x1p-1060, 0.5), 0x1p-530, 0x1p-570);
}

TEST(Softcap, EveryTableIsCloseToTheTangent) {
  for (const float cap : {1.0F, 30.0F, 50.0F}) {
    std::vector<float> x;
    for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i) * 0.11F);
    x.insert(x.end(), {0.0F, -0.0F, 3e38F, -3e38F, 1e-40F});
    const std::vector<float> before = x;
    for (const Kernels* table : available_kernels()) {
      x = before;
      table->softcap(x.data(), static_cast<std::uint32_t>(x.size()), cap);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(x[i], cap * std::tanh(double{before[i]} / cap), cap * 0x1p-22) << before[i];
      }
    }
  }
}

}  // namespace
}  // namespace hearth::kernels

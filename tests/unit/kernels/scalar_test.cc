// Quantiser, norm, activation, RoPE and residual: their meaning, and equality of bits of all
// tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using namespace fixtures;  // NOLINT

constexpr std::uint32_t kWidths[] = {32, 64, 96, 256, 288, 544, 576, 1536, 2048};
constexpr float kNotFinite[] = {INFINITY, -INFINITY, NAN};

const Kernels& scalar_table() { return *kernels_named("scalar").value(); }

// The rows that every element-wise test runs over.
std::vector<std::vector<float>> rows_of(Generator& random, std::uint32_t n) {
  std::vector<std::vector<float>> rows = {
      normals(random, n),
      normals(random, n, 1e-30F),
      normals(random, n, 1e20F),
      wild(random, n, -149, -100),
      wild(random, n, -149, 40),
      wild(random, n, 90, 120),
      std::vector<float>(n, 0.0F),
      std::vector<float>(n, -0.0F),
      std::vector<float>(n, std::numeric_limits<float>::max()),
      std::vector<float>(n, std::numeric_limits<float>::denorm_min())};
  std::vector<float> spike(n, 0.0F);
  spike[n / 2] = -3.5F;
  rows.push_back(spike);
  // From the top of the range down, so that small blocks have subnormal scales on the row's grid.
  std::vector<float> steep = normals(random, n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t b = i / kBlock;
    steep[i] = std::ldexp(steep[i], b == 0 ? 120 : -30 - static_cast<int>(b * 61 / (n / kBlock)));
  }
  rows.push_back(steep);
  return rows;
}

bool is_clear(const Activations& x) {
  const auto zero = [](const auto& v) {
    return std::all_of(v.begin(), v.end(), [](auto e) { return e == 0; });
  };
  return zero(x.values) && zero(x.scales) && zero(x.sums) && zero(x.block_sums) &&
         x.exponents[0] == kExponentMin;
}

TEST(Quantize, FollowsItsDefinitionInDouble) {
  for (const Kernels* table : available_kernels()) {
    Generator random(1);
    for (int round = 0; round < 50; ++round) {
      const std::uint32_t n = 320;
      const std::vector<float> x = normals(random, n, std::ldexp(1.0F, round - 25));
      Activations out(1, n);
      ASSERT_TRUE(table->quantize(x.data(), out.view, 0));
      double row_maximum = 0;
      for (const float v : x) row_maximum = std::max(row_maximum, std::abs(double{v}));
      EXPECT_LE(row_maximum, std::ldexp(1.0, out.exponents[0]));
      EXPECT_GT(row_maximum, std::ldexp(1.0, out.exponents[0] - 1));
      for (std::uint32_t b = 0; b < n / kBlock; ++b) {
        double maximum = 0;
        for (std::uint32_t k = 0; k < kBlock; ++k) {
          maximum = std::max(maximum, std::abs(double{x[b * kBlock + k]}));
        }
        const double d = std::ldexp(out.scales[b], out.exponents[0] - kGridBits);
        ASSERT_NEAR(d / (maximum / 127), 1.0, 0x1p-23);
        int sum = 0;
        int largest = 0;
        for (std::uint32_t k = 0; k < kBlock; ++k) {
          const int q = out.values[b * kBlock + k];
          ASSERT_NEAR(x[b * kBlock + k] / d, q, 0.5001);
          sum += q;
          largest = std::max(largest, std::abs(q));
        }
        EXPECT_EQ(largest, 127);
        EXPECT_EQ(out.block_sums[b], sum);
        EXPECT_EQ(out.sums[b], out.scales[b] * static_cast<float>(sum));
      }
    }
  }
}

TEST(Quantize, HalvesGoToTheEvenNeighbour) {
  for (const Kernels* table : available_kernels()) {
    std::vector<float> x(32, 0.0F);
    x[0] = 127.0F;
    x[1] = 0.5F;
    x[2] = 1.5F;
    x[3] = -2.5F;
    x[4] = 126.5F;
    Activations out(1, 32);
    ASSERT_TRUE(table->quantize(x.data(), out.view, 0));
    EXPECT_EQ(out.values[1], 0);
    EXPECT_EQ(out.values[2], 2);
    EXPECT_EQ(out.values[3], -2);
    EXPECT_EQ(out.values[4], 126);
  }
}

TEST(Quantize, EveryTableComputesTheSameBits) {
  Generator random(2);
  for (const std::uint32_t n : kWidths) {
    for (const std::vector<float>& x : rows_of(random, n)) {
      Activations expected(2, n);
      ASSERT_TRUE(scalar_table().quantize(x.data(), expected.view, 1));
      for (const Kernels* table : available_kernels()) {
        Activations out(2, n);
        ASSERT_TRUE(table->quantize(x.data(), out.view, 1));
        ASSERT_TRUE(out == expected) << table->name << " width " << n;
      }
    }
  }
}

TEST(Quantize, ABlockBelowTheSmallestScaleIsZero) {
  for (const Kernels* table : available_kernels()) {
    std::vector<float> x(64, 1.0F);
    std::fill(x.begin() + 32, x.end(), std::nextafterf(kTiny, 0.0F));
    Activations out(1, 64);
    ASSERT_TRUE(table->quantize(x.data(), out.view, 0));
    EXPECT_NE(out.scales[0], 0.0F);
    EXPECT_EQ(out.scales[1], 0.0F);
    EXPECT_EQ(out.values[63], 0);
    x[40] = kTiny;
    ASSERT_TRUE(table->quantize(x.data(), out.view, 0));
    EXPECT_EQ(out.values[40], 127);
  }
}

TEST(Quantize, ANonFiniteValueClearsTheRowAndSaysSo) {
  Generator random(3);
  for (const Kernels* table : available_kernels()) {
    for (const std::uint32_t n : kWidths) {
      for (const float bad : kNotFinite) {
        std::vector<float> x = normals(random, n);
        x[random() % n] = bad;
        Activations out(1, n);
        EXPECT_FALSE(table->quantize(x.data(), out.view, 0));
        EXPECT_TRUE(is_clear(out)) << table->name << " width " << n;
      }
    }
  }
}

TEST(RmsNorm, EveryTableComputesTheSameBits) {
  Generator random(4);
  for (const std::uint32_t n : kWidths) {
    for (const std::vector<float>& x : rows_of(random, n)) {
      for (const float epsilon : {1e-5F, 0.0F}) {
        const std::vector<float> weight = normals(random, n);
        Activations expected(1, n);
        std::vector<float> expected_normed(n);
        const bool ok = scalar_table().rms_norm_quantize(x.data(), weight.data(), epsilon,
                                                         expected.view, 0, expected_normed.data());
        EXPECT_TRUE(ok || is_clear(expected));
        for (const Kernels* table : available_kernels()) {
          Activations out(1, n);
          std::vector<float> normed(n);
          ASSERT_EQ(table->rms_norm_quantize(x.data(), weight.data(), epsilon, out.view, 0,
                                             normed.data()),
                    ok);
          ASSERT_TRUE(out == expected) << table->name << " width " << n;
          ASSERT_TRUE(!ok || same_bits(normed, expected_normed)) << table->name << " " << n;
          Activations without(1, n);
          table->rms_norm_quantize(x.data(), weight.data(), epsilon, without.view, 0, nullptr);
          ASSERT_TRUE(without == expected);
        }
      }
    }
  }
}

// One of the 256 lanes alone, so that each of its roundings shows in the sum.
TEST(RmsNorm, EveryTableAddsUpALaneInTheSameSteps) {
  Generator random(16);
  for (int round = 0; round < 400; ++round) {
    const std::uint32_t n = (9 + random() % 48) * kBlock;
    const std::vector<float> weight(n, 1.0F);
    std::vector<float> x(n, 0.0F);
    const std::uint32_t lane = random() % std::min(kNormLanes, n - kNormLanes);
    for (std::uint32_t i = lane; i < n; i += kNormLanes) x[i] = normal(random);
    std::vector<float> expected(n);
    ASSERT_TRUE(scalar_table().rms_norm(x.data(), weight.data(), 0.0F, n, expected.data()));
    for (const Kernels* table : available_kernels()) {
      std::vector<float> out(n);
      ASSERT_TRUE(table->rms_norm(x.data(), weight.data(), 0.0F, n, out.data()));
      ASSERT_TRUE(same_bits(out, expected)) << table->name << " width " << n << " lane " << lane;
    }
  }
}

TEST(RmsNorm, NormalisesToTheRootMeanSquare) {
  Generator random(5);
  for (const Kernels* table : available_kernels()) {
    const std::uint32_t n = 576;
    const std::vector<float> x = normals(random, n, 40.0F);
    const std::vector<float> weight = normals(random, n);
    Activations out(1, n);
    std::vector<float> normed(n);
    ASSERT_TRUE(
        table->rms_norm_quantize(x.data(), weight.data(), 1e-5F, out.view, 0, normed.data()));
    double squares = 0;
    for (const float v : x) squares += double{v} * v;
    for (std::uint32_t i = 0; i < n; ++i) {
      const double exact = x[i] / std::sqrt(squares / n + 1e-5) * weight[i];
      ASSERT_NEAR(normed[i], exact, std::abs(exact) * 1e-6);
    }
  }
}

TEST(RmsNorm, ASumOutOfRangeOrANonFiniteValueIsRefused) {
  Generator random(6);
  for (const Kernels* table : available_kernels()) {
    std::vector<float> x = normals(random, 64);
    const std::vector<float> weight(64, 1.0F);
    Activations out(1, 64);
    for (const float bad : {1e20F, INFINITY, -INFINITY, NAN}) {
      x[17] = bad;
      EXPECT_FALSE(table->rms_norm_quantize(x.data(), weight.data(), 1e-5F, out.view, 0, nullptr));
      EXPECT_TRUE(is_clear(out));
    }
    x.assign(64, 0.0F);  // 0 * infinity
    EXPECT_FALSE(table->rms_norm_quantize(x.data(), weight.data(), 0.0F, out.view, 0, nullptr));
    EXPECT_TRUE(table->rms_norm_quantize(x.data(), weight.data(), 1e-5F, out.view, 0, nullptr));
  }
}

TEST(PlainRmsNorm, EveryTableComputesTheBitsOfTheQuantisingOne) {
  Generator random(14);
  for (const std::uint32_t n : kWidths) {
    for (const std::vector<float>& x : rows_of(random, n)) {
      for (const float epsilon : {1e-6F, 0.0F}) {
        const std::vector<float> weight = wild(random, n, -20, 20);
        Activations row(1, n);
        std::vector<float> quantised(n);
        scalar_table().rms_norm_quantize(x.data(), weight.data(), epsilon, row.view, 0,
                                         quantised.data());
        std::vector<float> expected(n);
        const bool ok =
            scalar_table().rms_norm(x.data(), weight.data(), epsilon, n, expected.data());
        if (ok && std::all_of(expected.begin(), expected.end(), is_finite)) {
          EXPECT_TRUE(same_bits(expected, quantised));
        }
        for (const Kernels* table : available_kernels()) {
          std::vector<float> out = x;  // in place
          ASSERT_EQ(table->rms_norm(out.data(), weight.data(), epsilon, n, out.data()), ok);
          const bool same =
              std::equal(out.begin(), out.end(), expected.begin(), [](float a, float b) {
                return (std::isnan(a) && std::isnan(b)) ||
                       std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
              });
          ASSERT_TRUE(same) << table->name << " width " << n;
        }
      }
    }
  }
}

TEST(PlainRmsNorm, ASumOutOfRangeOrANonFiniteValueIsRefused) {
  Generator random(15);
  for (const Kernels* table : available_kernels()) {
    const std::vector<float> weight(64, 1.0F);
    for (const float bad : {1e20F, INFINITY, -INFINITY, NAN}) {
      std::vector<float> x = normals(random, 64);
      x[33] = bad;
      EXPECT_FALSE(table->rms_norm(x.data(), weight.data(), 1e-6F, 64, x.data())) << bad;
      EXPECT_TRUE(same_bits(x, std::vector<float>(64, 0.0F)));
    }
  }
}

// The gated activations.
struct Gated {
  const char* name;
  bool (*Kernels::*quantize)(const float*, const float*, const QuantizedRows&, std::uint32_t);
};
constexpr Gated kGated[] = {{"silu", &Kernels::swiglu_quantize},
                            {"gelu", &Kernels::geglu_quantize},
                            {"clamped", &Kernels::clamped_swiglu_quantize}};

TEST(Gated, EveryTableComputesTheSameBits) {
  Generator random(7);
  for (const Gated& gated : kGated) {
    for (const std::uint32_t n : kWidths) {
      for (const std::vector<float>& gate : rows_of(random, n)) {
        for (const std::vector<float>& up : {normals(random, n), wild(random, n, -60, 0)}) {
          Activations expected(1, n);
          const bool ok =
              (scalar_table().*gated.quantize)(gate.data(), up.data(), expected.view, 0);
          for (const Kernels* table : available_kernels()) {
            Activations out(1, n);
            ASSERT_EQ((table->*gated.quantize)(gate.data(), up.data(), out.view, 0), ok);
            ASSERT_TRUE(out == expected) << table->name << " " << gated.name << " width " << n;
          }
        }
      }
    }
  }
}

// One value of interest at a time, so that its scale shows every bit of the activation.
TEST(Gated, EveryTableComputesTheSameActivationForAllMagnitudes) {
  Generator random(8);
  std::vector<float> gate(32, 0.0F);
  const std::vector<float> up(32, 1.0F);
  for (const Gated& gated : kGated) {
    for (int i = 0; i < 20'000; ++i) {
      gate[i % 32] = i % 2 == 0 ? normal(random, i % 4 == 0 ? 4.0F : 40.0F)
                                : wild(random, 1, -40, i % 4 == 1 ? 20 : 120)[0];
      Activations expected(1, 32);
      ASSERT_TRUE((scalar_table().*gated.quantize)(gate.data(), up.data(), expected.view, 0));
      for (const Kernels* table : available_kernels()) {
        Activations out(1, 32);
        ASSERT_TRUE((table->*gated.quantize)(gate.data(), up.data(), out.view, 0));
        ASSERT_TRUE(out == expected) << table->name << " " << gated.name << " " << gate[i % 32];
      }
      gate[i % 32] = 0.0F;
    }
  }
}

TEST(Gated, ANonFiniteValueIsRefused) {
  Generator random(9);
  for (const Kernels* table : available_kernels()) {
    for (const Gated& gated : kGated) {
      for (const float bad : kNotFinite) {
        std::vector<float> gate = normals(random, 96);
        std::vector<float> up = normals(random, 96);
        gate[70] = bad;
        Activations out(1, 96);
        EXPECT_FALSE((table->*gated.quantize)(gate.data(), up.data(), out.view, 0)) << bad;
        EXPECT_TRUE(is_clear(out));
        gate[70] = 1.0F;
        up[3] = bad;
        EXPECT_FALSE((table->*gated.quantize)(gate.data(), up.data(), out.view, 0));
      }
    }
  }
}

// A gate is cut off above 7, an up outside of [-7, 7], and 1 is added to it.
TEST(Gated, ClampedSwigluIsItsFormula) {
  const auto value = [](float gate, float up) {
    std::vector<float> gates(32, 0.0F);
    std::vector<float> ups(32, 0.0F);
    gates[3] = gate;
    ups[3] = up;
    Activations out(1, 32);
    EXPECT_TRUE(scalar_table().clamped_swiglu_quantize(gates.data(), ups.data(), out.view, 0));
    return out.values[3] * out.scales[0] * std::ldexp(1.0F, out.exponents[0] - kGridBits);
  };
  for (const float gate : {-20.0F, -3.0F, -0.5F, 0.25F, 2.0F, 6.9F, 7.0F, 7.1F, 1e30F}) {
    for (const float up : {-1e30F, -8.0F, -2.0F, 0.0F, 0.5F, 7.0F, 9.0F}) {
      const double g = std::min(gate, 7.0F);
      const double u = std::clamp(up, -7.0F, 7.0F);
      const double exact = g / (1 + std::exp(-1.702 * g)) * (u + 1);
      EXPECT_NEAR(value(gate, up), exact, std::abs(exact) * 1e-5 + 1e-12) << gate << " " << up;
    }
  }
}

TEST(Rope, EveryTableComputesTheSameBits) {
  Generator random(10);
  for (const RopeStyle style : {RopeStyle::kAdjacent, RopeStyle::kHalves}) {
    for (const std::uint32_t head_dim : {32U, 64U, 96U, 128U, 256U}) {
      for (const std::uint32_t position : {0U, 1U, 31U, 4095U, 1'048'575U}) {
        std::vector<double> frequencies(head_dim / 2);
        for (std::size_t i = 0; i < frequencies.size(); ++i) {
          frequencies[i] = pow_canonical(1e5, -2.0 * static_cast<double>(i) / head_dim);
        }
        std::vector<float> table_row(head_dim);
        rope_table_row(position, frequencies, 1.0, table_row.data());
        const std::vector<float> x = wild(random, std::size_t{3} * head_dim, -30, 30);
        std::vector<float> expected = x;
        scalar_table().rope(expected.data(), 3, head_dim, style, table_row.data());
        for (const Kernels* table : available_kernels()) {
          std::vector<float> out = x;
          table->rope(out.data(), 3, head_dim, style, table_row.data());
          ASSERT_TRUE(same_bits(out, expected)) << table->name << " " << head_dim;
        }
      }
    }
  }
}

TEST(Rope, TurnsEachPairByItsAngle) {
  Generator random(11);
  for (const Kernels* table : available_kernels()) {
    for (const RopeStyle style : {RopeStyle::kAdjacent, RopeStyle::kHalves}) {
      const std::uint32_t d = 64;
      std::vector<double> frequencies(d / 2);
      for (std::uint32_t i = 0; i < d / 2; ++i) frequencies[i] = std::pow(1e4, -2.0 * i / d);
      std::vector<float> table_row(d);
      rope_table_row(77, frequencies, 1.0, table_row.data());
      const std::vector<float> x = normals(random, d);
      std::vector<float> out = x;
      table->rope(out.data(), 1, d, style, table_row.data());
      for (std::uint32_t i = 0; i < d / 2; ++i) {
        const std::uint32_t a = style == RopeStyle::kAdjacent ? 2 * i : i;
        const std::uint32_t b = style == RopeStyle::kAdjacent ? 2 * i + 1 : i + d / 2;
        const double angle = 77 * frequencies[i];
        EXPECT_NEAR(out[a], x[a] * std::cos(angle) - x[b] * std::sin(angle), 1e-6);
        EXPECT_NEAR(out[b], x[a] * std::sin(angle) + x[b] * std::cos(angle), 1e-6);
      }
    }
  }
}

TEST(Residual, EveryTableComputesTheSameBits) {
  Generator random(12);
  for (const std::uint32_t n : {1U, 7U, 15U, 16U, 33U, 576U}) {
    for (const int shift : {0, 6, -6, 20, 64, -64}) {
      const std::vector<float> x = wild(random, n, -40 + shift, 10 + shift);
      std::vector<float> expected = x;
      std::vector<std::uint16_t> expected_bits(n);
      ASSERT_TRUE(scalar_table().residual_round(expected.data(), expected_bits.data(), n, shift));
      for (const Kernels* table : available_kernels()) {
        std::vector<float> out = x;
        std::vector<std::uint16_t> bits(n + 1, 0xABCD);
        ASSERT_TRUE(table->residual_round(out.data(), bits.data(), n, shift));
        EXPECT_EQ(bits[n], 0xABCD);
        bits.pop_back();
        ASSERT_EQ(bits, expected_bits) << table->name << " n " << n << " shift " << shift;
        ASSERT_TRUE(same_bits(out, expected));
        std::vector<float> back(n);
        table->residual_expand(bits.data(), back.data(), n, shift);
        ASSERT_TRUE(same_bits(back, expected));
      }
    }
  }
}

TEST(Residual, LeavingTheRangeIsReported) {
  for (const Kernels* table : available_kernels()) {
    for (const float bad : {65520.0F * 64, -65520.0F * 64, INFINITY, NAN}) {
      for (const std::size_t at : {0U, 19U, 39U}) {
        std::vector<float> x(40, 1.0F);
        std::vector<std::uint16_t> bits(40);
        EXPECT_TRUE(table->residual_round(x.data(), bits.data(), 40, 6));
        x[at] = bad;
        EXPECT_FALSE(table->residual_round(x.data(), bits.data(), 40, 6)) << bad << " " << at;
      }
    }
    std::vector<float> x(1, 65504.0F * 64);
    std::vector<std::uint16_t> bits(1);
    EXPECT_TRUE(table->residual_round(x.data(), bits.data(), 1, 6));
    EXPECT_EQ(x[0], 65504.0F * 64);
  }
}

TEST(Add, EveryTableComputesTheSameBits) {
  Generator random(13);
  for (const std::uint32_t n : {1U, 15U, 16U, 17U, 576U}) {
    const std::vector<float> x = wild(random, n);
    const std::vector<float> y = wild(random, n);
    for (const Kernels* table : available_kernels()) {
      std::vector<float> out = x;
      table->add(out.data(), y.data(), n);
      for (std::uint32_t i = 0; i < n; ++i) ASSERT_EQ(out[i], x[i] + y[i]);
    }
  }
}

// 600 values: lanes that take two and three of them.
TEST(UnitLength, DividesByTheLengthInTheNormsOrder) {
  Generator random(14);
  for (const std::uint32_t n : {1U, 31U, 256U, 600U}) {
    std::vector<float> x = normals(random, n, 3.0F);
    std::vector<float> lanes(256);
    for (std::uint32_t i = 0; i < n; ++i) {
      lanes[i % 256] = std::fma(x[i], x[i], lanes[i % 256]);
    }
    for (std::uint32_t half = 128; half > 0; half /= 2) {
      for (std::uint32_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    }
    std::vector<float> out(n);
    ASSERT_TRUE(unit_length(x.data(), n, out.data()));
    for (std::uint32_t i = 0; i < n; ++i) ASSERT_EQ(out[i], x[i] / std::sqrt(lanes[0])) << i;
    ASSERT_TRUE(unit_length(x.data(), n, x.data())) << "in place";
    EXPECT_EQ(x, out);
  }
}

TEST(UnitLength, WhatHasNoLengthIsReported) {
  for (const float bad : {0.0F, INFINITY, -INFINITY, NAN, 3e38F}) {
    std::vector<float> x(40, 0.0F);
    x[7] = bad;
    std::vector<float> out(40, 1.0F);
    EXPECT_FALSE(unit_length(x.data(), 40, out.data())) << bad;
    EXPECT_EQ(out, std::vector<float>(40, 0.0F)) << bad;
  }
}

TEST(Select, NamesAndChoices) {
  const auto tables = available_kernels();
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(tables[0]->name, "scalar");
  for (const Kernels* table : tables) EXPECT_EQ(kernels_named(table->name).value(), table);
  const auto unknown = kernels_named("sse9");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(unknown.error().message.find("scalar"), std::string::npos);
}

TEST(Select, TheEnvironmentNamesTheTable) {
  const char* before = std::getenv("HEARTH_ISA");
  const std::string saved = before == nullptr ? "" : before;
  ASSERT_EQ(setenv("HEARTH_ISA", "scalar", 1), 0);
  EXPECT_EQ(select_kernels().value()->name, "scalar");
  ASSERT_EQ(setenv("HEARTH_ISA", "sse9", 1), 0);
  EXPECT_FALSE(select_kernels().ok());
  ASSERT_EQ(unsetenv("HEARTH_ISA"), 0);
  EXPECT_EQ(select_kernels().value(), available_kernels().back());
  if (before != nullptr) setenv("HEARTH_ISA", saved.c_str(), 1);
}

}  // namespace
}  // namespace hearth::kernels

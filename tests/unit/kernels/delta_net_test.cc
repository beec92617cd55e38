#include "kernels/delta_net.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/canonical.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using namespace fixtures;  // NOLINT

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr DeltaShape kShape{2, 4, 32, 4};

const Kernels& reference_table() { return *kernels_named("scalar").value(); }

void expect_bits(const std::vector<float>& a, const std::vector<float>& b, std::string_view what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i]))
        << what << ", value " << i;
  }
}

TEST(DeltaShape, CountsWhatASequenceKeeps) {
  EXPECT_EQ(kShape.channels(), 256U);
  EXPECT_EQ(kShape.inner(), 128U);
  EXPECT_EQ(kShape.history(), 768U);
  EXPECT_EQ(kShape.state_values(), 768U + 4096U);
  EXPECT_EQ((DeltaShape{1, 1, 32, 1}.history()), 0U) << "its own position alone is not kept";
}

// Many positions against the recurrence in double, where an error that piles up would show.
TEST(DeltaStep, FollowsTheRecurrenceInDouble) {
  constexpr std::uint32_t kHead = 64;
  Generator random(3);
  std::vector<float> state(kHead * kHead, 0.0F);
  std::vector<double> reference(kHead * kHead, 0.0);
  for (int position = 0; position < 200; ++position) {
    std::vector<float> query = normals(random, kHead, 1.0F);
    std::vector<float> key = normals(random, kHead, 1.0F);
    const std::vector<float> value = normals(random, kHead, 1.0F);
    ASSERT_TRUE(bounded_length(query.data(), kHead, 1e-6F, 0.125F, query.data()));
    ASSERT_TRUE(bounded_length(key.data(), kHead, 1e-6F, 1.0F, key.data()));
    DeltaStep step{query.data(), key.data(), value.data(), {0.7F, 0.96F}, state.data(), nullptr};
    std::vector<float> out(kHead);
    step.out = out.data();
    reference_table().delta_step(kHead, step);
    std::vector<double> read(kHead, 0.0);
    for (std::uint32_t j = 0; j < kHead; ++j) {
      double sum = 0.0;
      for (std::uint32_t i = 0; i < kHead; ++i) {
        reference[i * kHead + j] *= double{0.96F};
        sum += reference[i * kHead + j] * key[i];
      }
      const double error = (value[j] - sum) * double{0.7F};
      for (std::uint32_t i = 0; i < kHead; ++i) {
        reference[i * kHead + j] += key[i] * error;
        read[j] += reference[i * kHead + j] * query[i];
      }
      ASSERT_NEAR(out[j], read[j], 2e-6) << "position " << position << ", value " << j;
    }
  }
}

// What a key was written with, a query of the same direction reads.
TEST(DeltaStep, ReadsWhatWasWrittenAndForgetsByItsDecay) {
  constexpr std::uint32_t kHead = 32;
  std::vector<float> state(kHead * kHead, 0.0F);
  std::vector<float> key(kHead, 0.0F);
  std::vector<float> other(kHead, 0.0F);
  std::vector<float> value(kHead);
  std::vector<float> out(kHead);
  key[5] = other[6] = 1.0F;
  for (std::uint32_t j = 0; j < kHead; ++j) value[j] = static_cast<float>(j) - 7.0F;
  const auto run = [&](const std::vector<float>& at, const std::vector<float>& query,
                       DeltaNumbers numbers) {
    reference_table().delta_step(
        kHead, {query.data(), at.data(), value.data(), numbers, state.data(), out.data()});
  };
  run(key, key, {1.0F, 1.0F});
  EXPECT_EQ(out, value);
  run(key, key, {1.0F, 1.0F});
  EXPECT_EQ(out, value) << "what is there already is not added again";
  run(other, key, {1.0F, 0.5F});
  for (std::uint32_t j = 0; j < kHead; ++j) EXPECT_EQ(out[j], value[j] * 0.5F);
  run(other, other, {0.0F, 1.0F});
  EXPECT_EQ(out, value) << "a beta of 0 writes nothing";
}

TEST(DeltaNumbers, AreSigmoidAndDecay) {
  for (const float t : {-50.0F, -3.0F, 0.0F, 2.5F, 19.9F, 20.1F, 300.0F}) {
    DeltaNumbers numbers;
    ASSERT_TRUE(delta_numbers(-0.5F, 1.25F, t, numbers));
    EXPECT_NEAR(numbers.beta, 1.0 / (1.0 + std::exp(-1.25)), 1e-6);
    const double wanted = std::exp(-0.5 * std::log1p(std::exp(double{t})));
    EXPECT_NEAR(numbers.decay, wanted, 3e-6 * wanted + 1e-37) << t;
  }
  DeltaNumbers numbers;
  ASSERT_TRUE(delta_numbers(-3.0F, 0.0F, -200.0F, numbers));
  EXPECT_EQ(numbers.decay, 1.0F) << "nothing is forgotten";
  ASSERT_TRUE(delta_numbers(-1e30F, 0.0F, 1e30F, numbers));
  EXPECT_EQ(numbers.decay, 0.0F);
  for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    EXPECT_FALSE(delta_numbers(-1.0F, bad, 0.0F, numbers));
    EXPECT_FALSE(delta_numbers(-1.0F, 0.0F, bad, numbers));
  }
}

std::vector<float> convolved(const DeltaShape& shape, const std::vector<const float*>& rows,
                             const std::vector<float>& weights, bool* ok = nullptr) {
  std::vector<float> out(shape.channels());
  const bool finite = short_convolution(shape, rows.data(), weights.data(), out.data());
  if (ok != nullptr) *ok = finite;
  return out;
}

TEST(ShortConvolution, IsTheSumOfItsTaps) {
  Generator random(5);
  for (const DeltaShape& shape : {kShape, DeltaShape{1, 5, 96, 2}, DeltaShape{3, 3, 32, 1}}) {
    const std::uint32_t channels = shape.channels();
    const std::vector<float> weights = normals(random, channels * shape.taps, 0.5F);
    std::vector<std::vector<float>> given;
    std::vector<const float*> rows;
    for (std::uint32_t j = 0; j < shape.taps; ++j) given.push_back(normals(random, channels, 2.0F));
    for (const auto& row : given) rows.push_back(row.data());
    const std::vector<float> out = convolved(shape, rows, weights);
    for (std::uint32_t c = 0; c < channels; ++c) {
      double sum = 0.0;
      for (std::uint32_t j = 0; j < shape.taps; ++j) {
        sum += double{weights[c * shape.taps + j]} * given[j][c];
      }
      ASSERT_NEAR(out[c], sum, 1e-5) << c;
    }
    // A row before position 0 is as one of zeros, to the bit.
    const std::vector<float> zeros(channels, 0.0F);
    std::vector<const float*> first(shape.taps, nullptr);
    std::vector<const float*> padded(shape.taps, zeros.data());
    first.back() = padded.back() = rows.back();
    expect_bits(convolved(shape, first, weights), convolved(shape, padded, weights), "a first row");
  }
}

TEST(ShortConvolution, RefusesSumsThatAreNotFinite) {
  std::vector<float> row(kShape.channels(), 1.0F);
  std::vector<float> weights(std::size_t{kShape.channels()} * kShape.taps, 1.0F);
  std::vector<const float*> rows(kShape.taps, row.data());
  bool ok = false;
  convolved(kShape, rows, weights, &ok);
  EXPECT_TRUE(ok);
  row.back() = 0x1p127F;
  convolved(kShape, rows, weights, &ok);
  EXPECT_FALSE(ok) << "of the last channel";
}

TEST(DeltaRow, IsFiniteAndNotTooLarge) {
  std::vector<float> row(kShape.channels(), -kAttentionMax);
  EXPECT_TRUE(is_delta_row(kShape, row.data()));
  for (const float bad : {std::nextafter(kAttentionMax, kInfinity), -kInfinity, std::nanf("")}) {
    row.back() = bad;
    EXPECT_FALSE(is_delta_row(kShape, row.data()));
  }
}

TEST(BoundedLength, HasItsLengthAndNoneOfZeros) {
  std::vector<float> x{3.0F, 4.0F};
  x.resize(32, 0.0F);
  std::vector<float> out(32, 9.0F);
  ASSERT_TRUE(bounded_length(x.data(), 32, 1e-9F, 2.0F, out.data()));
  EXPECT_NEAR(out[0], 1.2, 1e-6);
  EXPECT_NEAR(out[1], 1.6, 1e-6);
  const std::vector<float> zeros(32, 0.0F);
  ASSERT_TRUE(bounded_length(zeros.data(), 32, 1e-6F, 1.0F, out.data()));
  EXPECT_EQ(out, zeros);
  x[7] = 1e30F;
  EXPECT_FALSE(bounded_length(x.data(), 32, 1e-6F, 1.0F, out.data()));
  EXPECT_EQ(out, zeros);
}

TEST(Gates, AreSiluAndSigmoid) {
  for (const Kernels* table : available_kernels()) {
    std::vector<float> gate(32, 1.0F);
    gate[0] = -3.0F;
    gate[1] = 0.0F;
    gate[31] = 100.0F;
    std::vector<float> silu = gate;
    std::vector<float> sigmoid(32, 2.0F);
    table->silu(silu.data(), 32);
    ASSERT_TRUE(table->multiply_sigmoid(sigmoid.data(), gate.data(), 32));
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double share = 1.0 / (1.0 + std::exp(-double{gate[i]}));
      EXPECT_NEAR(sigmoid[i], 2.0 * share, 1e-6);
      EXPECT_NEAR(silu[i], gate[i] * share, 1e-4);
    }
    for (const std::size_t bad : {0U, 9U, 31U}) {
      std::vector<float> infinite = gate;
      infinite[bad] = -kInfinity;
      EXPECT_FALSE(table->multiply_sigmoid(sigmoid.data(), infinite.data(), 32)) << bad;
    }
  }
}

// Of values of every magnitude, states that overflow and subnormal ones among them.
TEST(DeltaStep, EveryTableHasTheBitsOfScalar) {
  for (const std::uint32_t head : {32U, 64U, 96U, 128U, 512U}) {
    Generator random(head);
    const std::vector<float> first = wild(random, std::size_t{head} * head, -130, 20);
    const std::vector<float> query = wild(random, head, -100, 2);
    const std::vector<float> key = wild(random, head, -100, 2);
    const std::vector<float> value = wild(random, head, -100, 20);
    const std::vector<float> gate = wild(random, head, -100, 9);
    struct Left {
      std::vector<float> state, out, silu, shares;
    };
    const auto run = [&](const Kernels& table) {
      Left left{first, std::vector<float>(head), gate, value};
      const DeltaNumbers numbers{0.3F, 0.98F};
      for (int i = 0; i < 3; ++i) {
        table.delta_step(head, {query.data(), key.data(), value.data(), numbers, left.state.data(),
                                left.out.data()});
      }
      table.silu(left.silu.data(), head);
      EXPECT_TRUE(table.multiply_sigmoid(left.shares.data(), gate.data(), head));
      return left;
    };
    const Left wanted = run(reference_table());
    for (const Kernels* table : available_kernels()) {
      const Left left = run(*table);
      expect_bits(left.state, wanted.state, table->name);
      expect_bits(left.out, wanted.out, table->name);
      expect_bits(left.silu, wanted.silu, table->name);
      expect_bits(left.shares, wanted.shares, table->name);
    }
  }
}

}  // namespace
}  // namespace hearth::kernels

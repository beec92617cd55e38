// The kernels that work on rows against the scalar table: equality of bits, over widths, wild
// values and failures, with several seeds of the emulated card.
#include "kernels/cuda/rows.h"

#include <gtest/gtest.h>

#include <limits>

#include "card.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels::cuda {
namespace {

using namespace fixtures;  // NOLINT
using card::Input;
using card::Memory;

// The last is wider than a block holds at once.
constexpr std::uint32_t kWidths[] = {32, 96, 256, 288, 544, 2048, 4128, 8736};

const Kernels& scalar() { return *kernels_named("scalar").value(); }

// QuantizedRows in the card's memory, and what the host finds there.
struct CardRows {
  CardRows(std::uint32_t rows, std::uint32_t cols)
      : values(std::size_t{rows} * cols),
        scales(values.size() / kBlock),
        sums(scales.size()),
        block_sums(scales.size()),
        exponents(rows),
        view{rows,
             cols,
             values.data(),
             scales.data(),
             sums.data(),
             block_sums.data(),
             exponents.data()} {}
  bool equals(const Activations& other) const {
    return values.values() == other.values && same_bits(scales.values(), other.scales) &&
           same_bits(sums.values(), other.sums) && block_sums.values() == other.block_sums &&
           exponents.values() == other.exponents;
  }
  // Row t alone.
  bool equals(const Activations& other, std::uint32_t t) const {
    const auto same = [t](const auto& memory, const auto& host, std::size_t n) {
      return std::memcmp(&memory.values()[t * n], &host[t * n], n * sizeof(host[0])) == 0;
    };
    const std::size_t blocks = view.cols / kBlock;
    return same(values, other.values, view.cols) && same(scales, other.scales, blocks) &&
           same(sums, other.sums, blocks) && same(block_sums, other.block_sums, blocks) &&
           same(exponents, other.exponents, 1);
  }
  Memory<std::int8_t> values;
  Memory<float> scales;
  Memory<float> sums;
  Memory<std::int32_t> block_sums;
  Memory<std::int32_t> exponents;
  QuantizedRows view;
};

struct Flags : Memory<std::uint32_t> {
  explicit Flags(std::size_t rows) : Memory(std::vector<std::uint32_t>(rows, 0)) {}
};

// A row whose blocks in turn just count and just do not count as zero; with `also`, which counts.
std::vector<float> edge_of_zero(std::uint32_t n, float also) {
  std::vector<float> row(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const float most = i / kBlock % 2 == 0 ? kTiny : std::nextafterf(kTiny, 0.0F);
    row[i] = (i % 2 == 0 ? most : -most) * (i % 3 == 0 ? 1.0F : 0.4F);
  }
  row[n - 1] += also;
  return row;
}

// Rows that a quantiser may meet, one after the other: of every magnitude, zeros, at the edge of
// what counts as zero, the largest and the smallest numbers, and the last three with a value that
// is not finite.
std::vector<float> rows_of(Generator& random, std::uint32_t n) {
  std::vector<std::vector<float>> rows = {
      normals(random, n),
      normals(random, n, 1e20F),
      wild(random, n, -149, -100),
      wild(random, n, -149, 40),
      wild(random, n, 90, 120),
      std::vector<float>(n, -0.0F),
      edge_of_zero(n, 0.0F),
      edge_of_zero(n, 0x1p-97F),
      std::vector<float>(n, std::numeric_limits<float>::max()),
      std::vector<float>(n, std::numeric_limits<float>::denorm_min())};
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    rows.push_back(normals(random, n));
    rows.back()[random() % n] = bad;
  }
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

// Runs `card(out, failed)` and `row(t, out)` of the scalar table over as many rows and compares.
template <typename Card, typename Row>
void compare(std::uint32_t rows, std::uint32_t cols, Card card, Row row) {
  Activations expected(rows, cols);
  std::vector<std::uint32_t> failed(rows, 0);
  for (std::uint32_t t = 0; t < rows; ++t) failed[t] = row(t, expected.view) ? 0 : 1;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    card::set_seed(seed);
    CardRows out(rows, cols);
    Flags flags(rows);
    ASSERT_TRUE(card(out.view, flags.data()).ok());
    ASSERT_TRUE(out.equals(expected)) << "width " << cols << " seed " << seed;
    ASSERT_EQ(flags.values(), failed) << "width " << cols;
  }
}

TEST(CudaRows, QuantizeEqualsTheScalarTable) {
  Generator random(1);
  for (const std::uint32_t n : kWidths) {
    const std::vector<float> x = rows_of(random, n);
    const Input<float> in(x);
    compare(
        static_cast<std::uint32_t>(x.size() / n), n,
        [&](const QuantizedRows& out, std::uint32_t* failed) {
          return quantize(in.data(), out, failed, nullptr);
        },
        [&](std::uint32_t t, const QuantizedRows& out) {
          return scalar().quantize(&x[std::size_t{t} * n], out, t);
        });
  }
}

TEST(CudaRows, NormAndQuantizeEqualTheScalarTable) {
  Generator random(2);
  for (const std::uint32_t n : kWidths) {
    const std::vector<float> x = rows_of(random, n);
    const std::vector<float> weight = n % 96 == 0 ? wild(random, n) : normals(random, n);
    const Input<float> in(x);
    const Input<float> weights(weight);
    Memory<float> normed(x.size());
    std::vector<float> expected(x.size());
    std::vector<std::uint32_t> good;
    const auto rows = static_cast<std::uint32_t>(x.size() / n);
    for (const bool plain : {false, true}) {
      compare(
          rows, n,
          [&](const QuantizedRows& out, std::uint32_t* failed) {
            return rms_norm_quantize(in.data(), weights.data(), 1e-5F, out,
                                     plain ? normed.data() : nullptr, failed, nullptr);
          },
          [&](std::uint32_t t, const QuantizedRows& out) {
            const std::size_t at = std::size_t{t} * n;
            const bool ok = scalar().rms_norm_quantize(&x[at], weight.data(), 1e-5F, out, t,
                                                       plain ? &expected[at] : nullptr);
            if (ok && plain) good.push_back(t);
            return ok;
          });
    }
    ASSERT_FALSE(good.empty());
    const std::vector<float> found = normed.values();
    for (const std::uint32_t t : good) {
      ASSERT_EQ(std::memcmp(&found[t * n], &expected[t * n], n * 4), 0);
    }
  }
}

// A plain norm may give a NaN, which the operation that reads it refuses. Its sign and its payload
// are those of the processor: a GPU's NaN has other bits than an x86 CPU's.
bool same_but_for_nans(std::vector<float> a, std::vector<float> b) {
  for (std::vector<float>* values : {&a, &b}) {
    for (float& value : *values) {
      if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return same_bits(a, b);
}

TEST(CudaRows, PlainNormEqualsTheScalarTableInPlaceToo) {
  Generator random(3);
  for (const std::uint32_t n : kWidths) {
    const std::vector<float> x = rows_of(random, n);
    const auto rows = static_cast<std::uint32_t>(x.size() / n);
    const std::vector<float> weight = wild(random, n, -20, 127);
    std::vector<float> expected(x.size());
    std::vector<std::uint32_t> failed((rows + 1) / 2, 0);
    for (std::uint32_t t = 0; t < rows; ++t) {
      const std::size_t at = std::size_t{t} * n;
      if (!scalar().rms_norm(&x[at], weight.data(), 1e-6F, n, &expected[at])) failed[t / 2] = 1;
    }
    const Input<float> weights(weight);
    const Input<float> in(x);
    for (const bool in_place : {false, true}) {
      Memory<float> out(x);
      Flags flags(failed.size());
      ASSERT_TRUE(rms_norm(in_place ? out.data() : in.data(), weights.data(), 1e-6F, rows, n, 2,
                           out.data(), flags.data(), nullptr)
                      .ok());
      const bool emulated = card::launches() > 0;  // on this CPU, whose NaNs are the scalar table's
      ASSERT_TRUE(emulated ? same_bits(out.values(), expected)
                           : same_but_for_nans(out.values(), expected))
          << n;
      ASSERT_EQ(flags.values(), failed);
    }
  }
}

TEST(CudaRows, GatesEqualTheScalarTable) {
  Generator random(4);
  for (const std::uint32_t n : kWidths) {
    const std::vector<float> gate = rows_of(random, n);
    std::vector<float> up = gate;
    std::shuffle(up.begin(), up.begin() + static_cast<std::ptrdiff_t>(n) * 7, random);
    const Input<float> gates(gate);
    const Input<float> ups(up);
    for (const bool gelu : {false, true}) {
      compare(
          static_cast<std::uint32_t>(gate.size() / n), n,
          [&](const QuantizedRows& out, std::uint32_t* failed) {
            return gelu ? geglu_quantize(gates.data(), ups.data(), out, failed, nullptr)
                        : swiglu_quantize(gates.data(), ups.data(), out, failed, nullptr);
          },
          [&](std::uint32_t t, const QuantizedRows& out) {
            const std::size_t at = std::size_t{t} * n;
            return gelu ? scalar().geglu_quantize(&gate[at], &up[at], out, t)
                        : scalar().swiglu_quantize(&gate[at], &up[at], out, t);
          });
    }
  }
}

// As many rows that one block takes more than a step of each.
TEST(CudaRows, GatesOfManyRowsEqualTheScalarTable) {
  constexpr std::uint32_t kCols = 1056;
  constexpr std::uint32_t kRows = 1100;
  Generator random(10);
  const std::vector<float> gate = wild(random, std::size_t{kRows} * kCols, -20, 5);
  const Input<float> gates(gate);
  CardRows out(kRows, kCols);
  Flags flags(kRows);
  ASSERT_TRUE(swiglu_quantize(gates.data(), gates.data(), out.view, flags.data(), nullptr).ok());
  Activations expected(kRows, kCols);
  for (std::uint32_t t = 0; t < kRows; ++t) {
    const float* row = &gate[std::size_t{t} * kCols];
    ASSERT_TRUE(scalar().swiglu_quantize(row, row, expected.view, t));
  }
  ASSERT_TRUE(out.equals(expected));
}

// The blocks of a row count in its flag.
TEST(CudaRows, AGateLeavesTheFlagOfARowThatHasFailed) {
  constexpr std::uint32_t kCols = 3104;
  Generator random(11);
  std::vector<float> gate = normals(random, 3 * kCols);
  gate[2 * kCols + 7] = NAN;
  const Input<float> gates(gate);
  CardRows out(3, kCols);
  Memory<std::uint32_t> flags(std::vector<std::uint32_t>{0, 1, 1});
  ASSERT_TRUE(swiglu_quantize(gates.data(), gates.data(), out.view, flags.data(), nullptr).ok());
  EXPECT_EQ(flags.values(), (std::vector<std::uint32_t>{0, 1, 1}));
}

TEST(CudaRows, SumsEqualTheScalarTable) {
  Generator random(5);
  for (const std::uint32_t n : {7U, 32U, 300U}) {
    const std::vector<float> x = wild(random, n * 3);
    const std::vector<float> y = wild(random, n * 3);
    const Input<float> other(y);
    for (const bool bias : {false, true}) {
      std::vector<float> expected = x;
      for (std::size_t t = 0; t < 3; ++t) scalar().add(&expected[t * n], &y[bias ? 0 : t * n], n);
      Memory<float> sum(x);
      ASSERT_TRUE((bias ? add_bias(sum.data(), other.data(), 3, n, nullptr)
                        : add(sum.data(), other.data(), 3, n, nullptr))
                      .ok());
      ASSERT_TRUE(same_bits(sum.values(), expected));
    }
  }
}

TEST(CudaRows, ResidualEqualsTheScalarTable) {
  Generator random(6);
  for (const std::uint32_t n : {5U, 64U, 520U}) {
    for (const int shift : {-64, 0, 6, 64}) {
      std::vector<float> x = wild(random, n * 4, -60, shift + 10);
      x[2 * n + n / 2] = std::ldexp(1.0F, shift + 17);
      x[3 * n] = NAN;
      std::vector<float> expected = x;
      std::vector<std::uint16_t> expected_bits(n * 4);
      std::vector<std::uint32_t> failed(4);
      for (std::size_t t = 0; t < 4; ++t) {
        failed[t] =
            scalar().residual_round(&expected[t * n], &expected_bits[t * n], n, shift) ? 0 : 1;
      }
      ASSERT_EQ(failed[2] + failed[3], 2U);
      Memory<float> card_x(x);
      Memory<std::uint16_t> bits(expected_bits.size());
      Flags flags(4);
      ASSERT_TRUE(
          residual_round(card_x.data(), bits.data(), 4, n, shift, flags.data(), nullptr).ok());
      ASSERT_EQ(flags.values(), failed);
      Memory<float> back(x.size());
      ASSERT_TRUE(residual_expand(bits.data(), back.data(), 4, n, shift, nullptr).ok());
      const std::vector<float> found = card_x.values();
      const std::vector<std::uint16_t> found_bits = bits.values();
      const std::vector<float> found_back = back.values();
      for (std::size_t t = 0; t < 4; ++t) {
        if (failed[t] != 0) continue;
        ASSERT_EQ(std::memcmp(&found[t * n], &expected[t * n], n * 4), 0);
        ASSERT_EQ(std::memcmp(&found_bits[t * n], &expected_bits[t * n], n * 2), 0);
        std::vector<float> expanded(n);
        scalar().residual_expand(&expected_bits[t * n], expanded.data(), n, shift);
        ASSERT_EQ(std::memcmp(&found_back[t * n], expanded.data(), n * 4), 0);
      }
    }
  }
}

// One launch against the calls that it stands for, over rows that fail in each of them.
void compare_step(Generator& random, std::uint32_t n, bool post, bool rounded, std::uint64_t seed) {
  constexpr int kShift = 6;
  constexpr float kEpsilon = 1e-5F;
  std::vector<float> x = rows_of(random, n);
  const auto rows = static_cast<std::uint32_t>(x.size() / n);
  std::vector<float> y = normals(random, x.size());
  for (std::uint32_t t = 2; t < rows; t += 3) {  // over what x has of everything
    const std::vector<float> other = rows_of(random, n);
    std::copy_n(&other[std::size_t{random() % rows} * n], n, &y[std::size_t{t} * n]);
  }
  const std::vector<float> post_norm = normals(random, n);
  const std::vector<float> norm = normals(random, n);
  const Input<float> card_y(y);
  const Input<float> card_post(post_norm);
  const Input<float> card_norm(norm);
  Memory<float> card_x(x);
  Memory<std::uint16_t> bits(x.size());
  CardRows out(rows, n);
  Flags flags(rows);
  card::set_seed(seed);
  ASSERT_TRUE(residual_step({card_x.data(), card_y.data(), post ? card_post.data() : nullptr,
                             rounded ? bits.data() : nullptr, kShift, card_norm.data(), kEpsilon},
                            out.view, flags.data(), nullptr)
                  .ok());
  Activations expected(rows, n);
  const std::vector<float> found = card_x.values();
  const std::vector<std::uint16_t> found_bits =
      rounded ? bits.values() : std::vector<std::uint16_t>(x.size());
  const std::vector<std::uint32_t> found_flags = flags.values();
  int good = 0;
  for (std::uint32_t t = 0; t < rows; ++t) {
    float* row = &x[std::size_t{t} * n];
    float* delta = &y[std::size_t{t} * n];
    std::vector<std::uint16_t> half(n);
    bool ok = !post || scalar().rms_norm(delta, post_norm.data(), kEpsilon, n, delta);
    scalar().add(row, delta, n);
    ok = (!rounded || scalar().residual_round(row, half.data(), n, kShift)) && ok;
    ok = scalar().rms_norm_quantize(row, norm.data(), kEpsilon, expected.view, t, nullptr) && ok;
    ASSERT_EQ(found_flags[t], ok ? 0U : 1U) << t;
    if (!ok) continue;  // what a row that has failed goes on with holds no meaning
    ++good;
    ASSERT_TRUE(out.equals(expected, t)) << n << " row " << t;
    ASSERT_EQ(std::memcmp(row, &found[std::size_t{t} * n], n * 4), 0) << t;
    if (!rounded) continue;
    ASSERT_EQ(std::memcmp(half.data(), &found_bits[std::size_t{t} * n], n * 2), 0) << t;
  }
  ASSERT_GT(good, 0);
}

TEST(CudaRows, AResidualStepEqualsItsParts) {
  Generator random(8);
  for (const std::uint32_t n : kWidths) {
    for (int how = 0; how < 4; ++how) {
      compare_step(random, n, (how & 1) != 0, (how & 2) != 0, n + static_cast<unsigned>(how));
    }
  }
}

TEST(CudaRows, AResidualStepWithoutANormLeavesTheRowsAlone) {
  Generator random(9);
  const std::vector<float> x = normals(random, 192);
  const std::vector<float> y = normals(random, 192);
  Memory<float> card_x(x);
  const Input<float> other(y);
  Memory<std::uint16_t> bits(192);
  Flags flags(2);
  QuantizedRows shape;
  shape.rows = 2;
  shape.cols = 96;
  ResidualStep step{card_x.data(), other.data(), nullptr, bits.data(), 6, nullptr, 0.0F};
  ASSERT_TRUE(residual_step(step, shape, flags.data(), nullptr).ok());
  std::vector<float> expected = x;
  std::vector<std::uint16_t> half(192);
  scalar().add(expected.data(), y.data(), 192);
  ASSERT_TRUE(scalar().residual_round(expected.data(), half.data(), 192, 6));
  EXPECT_TRUE(same_bits(card_x.values(), expected));
  EXPECT_EQ(bits.values(), half);
  step.shift = 65;
  EXPECT_FALSE(residual_step(step, shape, flags.data(), nullptr).ok());
}

struct Heads {
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t head_dim;
};

// Tokens of pages and slots of their own; each page equals that of the scalar table in every byte,
// those that no thread wrote included.
void compare_rope(Generator& random, const Heads& shape, RopeStyle style, std::uint64_t seed) {
  constexpr std::uint32_t kTokens = 5;
  const KvLayout layout{shape.kv_heads, shape.head_dim};
  const std::size_t wide = std::size_t{shape.heads} * shape.head_dim;
  const std::size_t narrow = std::size_t{shape.kv_heads} * shape.head_dim;
  std::vector<float> query = normals(random, kTokens * wide);
  std::vector<float> key = wild(random, kTokens * narrow, -120, 38);
  std::vector<float> value = wild(random, kTokens * narrow, -120, 38);
  const std::vector<float> angles = normals(random, std::size_t{kTokens} * shape.head_dim, 0.5F);
  const std::vector<float> edge = edge_of_zero(static_cast<std::uint32_t>(narrow), 0.0F);
  std::copy(edge.begin(), edge.end(), value.begin() + 1 * narrow);  // one scale a head
  for (std::size_t i = 0; i < narrow; ++i) {
    const float most = i / shape.head_dim % 2 == 0 ? kTiny : std::nextafterf(kTiny, 0.0F);
    value[3 * narrow + i] = i % 3 == 0 ? most : -0.7F * most;
  }
  key[2 * narrow + random() % narrow] = INFINITY;
  value[4 * narrow + random() % narrow] = std::nextafterf(kAttentionMax, INFINITY);
  const std::vector<std::uint32_t> slots = {0, 31, 17, static_cast<std::uint32_t>(random() % 32),
                                            15};
  const Input<float> keys(key);
  const Input<float> values(value);
  const Input<float> cos_sin(angles);
  const Input<std::uint32_t> slots_of(slots);
  Memory<float> queries(query);
  Flags flags(kTokens);
  const std::vector<std::byte> empty(layout.page_bytes(), std::byte{0x5A});
  std::vector<std::unique_ptr<Memory<std::byte>>> pages;
  std::vector<std::byte*> addresses;
  for (std::uint32_t t = 0; t < kTokens; ++t) {
    pages.push_back(std::make_unique<Memory<std::byte>>(empty));
    addresses.push_back(pages.back()->data());
  }
  const Input<std::byte*> page_table(addresses);
  card::set_seed(seed);
  ASSERT_TRUE(rope_and_store({kTokens, shape.heads, layout, style, queries.data(), keys.data(),
                              values.data(), cos_sin.data(), page_table.data(), slots_of.data()},
                             flags.data(), nullptr)
                  .ok());
  const std::vector<std::uint32_t> found = flags.values();
  for (std::size_t t = 0; t < kTokens; ++t) {
    const float* angle = &angles[t * shape.head_dim];
    scalar().rope(&query[t * wide], shape.heads, shape.head_dim, style, angle);
    scalar().rope(&key[t * narrow], shape.kv_heads, shape.head_dim, style, angle);
    auto page = aligned<std::byte>(layout.page_bytes());
    std::copy(empty.begin(), empty.end(), page.get());
    const bool ok =
        scalar().kv_write(layout, page.get(), slots[t], &key[t * narrow], &value[t * narrow]);
    ASSERT_EQ(found[t], ok ? 0U : 1U) << t;
    if (!ok) continue;
    ASSERT_EQ(std::memcmp(page.get(), pages[t]->values().data(), layout.page_bytes()), 0) << t;
  }
  ASSERT_EQ(found[2] + found[4], 2U);
  ASSERT_TRUE(same_bits(queries.values(), query));
}

TEST(CudaRows, RopeAndStoreEqualTheScalarTable) {
  Generator random(7);
  for (const Heads& shape : {Heads{3, 1, 32}, Heads{4, 2, 64}, Heads{2, 2, 96}, Heads{8, 2, 128},
                             Heads{1, 1, 256}, Heads{2, 1, 512}}) {
    for (const RopeStyle style : {RopeStyle::kAdjacent, RopeStyle::kHalves}) {
      for (std::uint64_t seed = 0; seed < 2; ++seed) compare_rope(random, shape, style, seed);
    }
  }
}

TEST(CudaRows, RefusesShapesItCannotMean) {
  EXPECT_FALSE(quantize(nullptr, {1, 48}, nullptr, nullptr).ok());
  EXPECT_FALSE(quantize(nullptr, {1, 0}, nullptr, nullptr).ok());
  EXPECT_FALSE(rms_norm(nullptr, nullptr, 0, 1, 33, 1, nullptr, nullptr, nullptr).ok());
  EXPECT_FALSE(rms_norm(nullptr, nullptr, 0, 1, 32, 0, nullptr, nullptr, nullptr).ok());
  EXPECT_FALSE(residual_round(nullptr, nullptr, 1, 32, 65, nullptr, nullptr).ok());
  EXPECT_FALSE(residual_expand(nullptr, nullptr, 1, 32, -65, nullptr).ok());
  RopeAndStore wide;
  wide.layout = {1, 544};
  EXPECT_FALSE(rope_and_store(wide, nullptr, nullptr).ok());
  const std::uint64_t before = card::launches();
  EXPECT_TRUE(quantize(nullptr, {0, 32}, nullptr, nullptr).ok());
  EXPECT_EQ(card::launches(), before);
}

}  // namespace
}  // namespace hearth::kernels::cuda

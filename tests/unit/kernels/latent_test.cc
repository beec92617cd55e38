#include "kernels/latent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using namespace fixtures;  // NOLINT

constexpr std::uint32_t kWidth = 64;   // values of a row that are values
constexpr std::uint32_t kTurned = 32;  // and behind them
constexpr KvLayout kLayout{1, kWidth + kTurned, kWidth};

// The pages of a sequence, and its rows as they were.
struct Sequence {
  std::vector<std::vector<std::byte>> memory;
  std::vector<const std::byte*> pages;
  std::vector<std::vector<float>> rows;

  bool append(const std::vector<float>& row) {
    const std::size_t position = rows.size();
    if (position % kPageTokens == 0) memory.emplace_back(kLayout.page_bytes());
    pages.clear();
    for (const auto& page : memory) pages.push_back(page.data());
    rows.push_back(row);
    return latent_write(kLayout, memory.back().data(), position % kPageTokens, row.data());
  }
};

Sequence sequence_of(std::uint64_t seed, std::uint32_t positions) {
  Generator random(seed);
  Sequence sequence;
  for (std::uint32_t i = 0; i < positions; ++i) {
    EXPECT_TRUE(sequence.append(normals(random, kWidth + kTurned, 1.0F)));
  }
  return sequence;
}

std::vector<float> attend(const Sequence& sequence, const std::vector<float>& query,
                          std::uint32_t end, bool* ok = nullptr) {
  std::vector<float> scratch(end);
  std::vector<float> out(kWidth, 7.0F);
  LatentArgs args;
  args.layout = kLayout;
  args.query = query.data();
  args.pages = sequence.pages.data();
  args.end = end;
  args.score_scale = 0.25F;
  args.scratch = scratch.data();
  args.out = out.data();
  const bool done = latent_attention(args);
  if (ok != nullptr) *ok = done;
  EXPECT_TRUE(done || ok != nullptr);
  return out;
}

// In plain numbers, with the library's exponential.
std::vector<double> expected(const Sequence& sequence, const std::vector<float>& query,
                             std::uint32_t end) {
  std::vector<double> scores(end);
  for (std::uint32_t i = 0; i < end; ++i) {
    for (std::uint32_t k = 0; k < kWidth + kTurned; ++k) {
      scores[i] += 0.25 * query[k] * sequence.rows[i][k];
    }
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - most);
  std::vector<double> out(kWidth);
  for (std::uint32_t i = 0; i < end; ++i) {
    for (std::uint32_t k = 0; k < kWidth; ++k) out[k] += scores[i] / sum * sequence.rows[i][k];
  }
  return out;
}

TEST(LatentAttention, IsAttentionOverRowsThatAreKeysAndValues) {
  const Sequence sequence = sequence_of(1, 700);  // more than 32 bits add up at a time
  Generator random(2);
  for (const std::uint32_t end : {1U, 2U, 31U, 32U, 33U, 256U, 257U, 700U}) {
    const std::vector<float> query = normals(random, kWidth + kTurned, 0.5F);
    const std::vector<float> out = attend(sequence, query, end);
    const std::vector<double> wanted = expected(sequence, query, end);
    for (std::uint32_t k = 0; k < kWidth; ++k) EXPECT_NEAR(out[k], wanted[k], 0.03) << end;
  }
}

// Of one position the softmax is 1, so the values come back as they are kept.
TEST(LatentAttention, OnePositionGivesItsOwnValues) {
  Sequence sequence;
  std::vector<float> row(kWidth + kTurned, 0.0F);
  for (std::uint32_t k = 0; k < kWidth; ++k) row[k] = k < 32 ? 127.0F - k : 0x1p-20F * k;
  ASSERT_TRUE(sequence.append(row));
  const std::vector<float> out = attend(sequence, std::vector<float>(kWidth + kTurned, 0.1F), 1);
  for (std::uint32_t k = 0; k < 32; ++k) EXPECT_NEAR(out[k], row[k], 1e-3) << k;
  // A run has a scale of its own, however small it is beside the others.
  for (std::uint32_t k = 32; k < kWidth; ++k) EXPECT_NEAR(out[k], row[k], 0x1p-20F) << k;
}

TEST(LatentAttention, RunsOfZerosGiveZeros) {
  Sequence sequence;
  ASSERT_TRUE(sequence.append(std::vector<float>(kWidth + kTurned, 0.0F)));
  const std::vector<float> out = attend(sequence, std::vector<float>(kWidth + kTurned, 1.0F), 1);
  for (const float value : out) EXPECT_EQ(std::bit_cast<std::uint32_t>(value), 0U);
}

TEST(LatentAttention, ValuesBeyondTheLimitAreRefused) {
  std::vector<float> row(kWidth + kTurned, 1.0F);
  Sequence sequence;
  ASSERT_TRUE(sequence.append(row));
  for (const float bad : {NAN, INFINITY, -INFINITY, 0x1.000002p40F}) {
    row.back() = bad;
    Sequence other;
    EXPECT_FALSE(other.append(row)) << bad;
    bool ok = true;
    EXPECT_EQ(attend(sequence, row, 1, &ok), std::vector<float>(kWidth)) << bad;
    EXPECT_FALSE(ok);
  }
  row.back() = -kAttentionMax;
  EXPECT_TRUE(sequence.append(row));
}

TEST(LatentAttention, ASlotIsReadInTheOrderOfTheText) {
  EXPECT_EQ(kLayout.slot_bytes(), 96U + 3 * 4);
  EXPECT_EQ(kLayout.page_bytes(), kPageTokens * kLayout.slot_bytes());
  Sequence sequence;
  std::vector<float> row(kWidth + kTurned);
  for (std::size_t k = 0; k < row.size(); ++k) row[k] = static_cast<float>(k % 32) - 127.0F;
  ASSERT_TRUE(sequence.append(std::vector<float>(row.size(), 1.0F)));
  ASSERT_TRUE(sequence.append(row));
  std::vector<std::byte> slot(kLayout.slot_bytes());
  kv_read(kLayout, sequence.pages[0], 1, slot.data());
  for (std::size_t k = 0; k < row.size(); ++k) {
    EXPECT_EQ(static_cast<std::int8_t>(slot[k]), static_cast<std::int8_t>(row[k])) << k;
  }
  float scale = 0.0F;
  std::memcpy(&scale, slot.data() + row.size() + 8, sizeof scale);
  EXPECT_EQ(scale, 1.0F);
}

}  // namespace
}  // namespace hearth::kernels

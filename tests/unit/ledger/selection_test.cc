#include "ledger/selection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/unit/ledger/test_keys.h"

namespace hearth::ledger {
namespace {

Bytes message_of(std::uint64_t size) {
  return draw_message(size, blake2b(as_bytes(std::to_string(size))), key_of(1).public_key());
}

Draw draw_of(const Bytes& message) {
  auto draw = Draw::open(message, key_of(1).public_key(), vrf_prove(key_of(1), message));
  EXPECT_TRUE(draw);
  return *draw;
}

std::vector<Draw::Candidate> candidates(unsigned count) {
  std::vector<Draw::Candidate> all;
  for (unsigned i = 0; i < count; ++i) {
    const auto seed = static_cast<unsigned char>(10 + i);
    all.push_back({key_of(seed).public_key(), blake2b(as_bytes("owner " + std::to_string(i)))});
  }
  return all;
}

TEST(Draw, OpensForItsCheckpointAndDrawerOnly) {
  const VrfProof proof = vrf_prove(key_of(1), message_of(100));
  EXPECT_TRUE(Draw::open(message_of(100), key_of(1).public_key(), proof));
  EXPECT_FALSE(Draw::open(message_of(100), key_of(2).public_key(), proof));
  EXPECT_FALSE(Draw::open(message_of(101), key_of(1).public_key(), proof));
}

TEST(Draw, SelectsAtTheRateAskedFor) {
  constexpr std::uint64_t kWindows = 200'000;
  const Draw draw = draw_of(message_of(7));
  for (const std::int64_t rate : {5'000, 30'000, 50'000, 300'000, 900'000}) {
    std::uint64_t selected = 0;
    for (std::uint64_t i = 0; i < kWindows; ++i) selected += draw.selects(i, rate);
    const double p = static_cast<double>(rate) / kMillion;
    const double sigma = std::sqrt(p * (1 - p) * kWindows);
    EXPECT_NEAR(static_cast<double>(selected), p * kWindows, 4 * sigma) << rate;
  }
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    EXPECT_TRUE(draw.selects(i, kMillion));
    EXPECT_FALSE(draw.selects(i, 0));
    EXPECT_FALSE(draw.selects(i, -1));
    EXPECT_TRUE(!draw.selects(i, 30'000) || draw.selects(i, 90'000)) << "a raise spares no entry";
  }
}

// What was drawn before says nothing about the next: runs between selections are geometric.
TEST(Draw, WindowsAreSelectedIndependently) {
  constexpr std::int64_t kRate = 100'000;
  const Draw draw = draw_of(message_of(8));
  std::map<std::uint64_t, int> gaps;
  std::uint64_t last = 0;
  int total = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    if (!draw.selects(i, kRate)) continue;
    ++gaps[std::min<std::uint64_t>(i - last, 30)];
    ++total;
    last = i;
  }
  double chi = 0;
  for (std::uint64_t gap = 1; gap <= 30; ++gap) {
    const double p =
        gap < 30 ? 0.1 * std::pow(0.9, static_cast<double>(gap - 1)) : std::pow(0.9, 29.0);
    chi += (gaps[gap] - p * total) * (gaps[gap] - p * total) / (p * total);
  }
  EXPECT_LT(chi, 58.3) << "29 degrees of freedom, p = 0.001";
}

TEST(Draw, TheRefereeLooksWhereverItWants) {
  const Draw draw = draw_of(message_of(9));
  const Policy policy;
  int both = 0;
  int referee = 0;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    if (!draw.selects_referee(i, policy.coordinator_rate)) continue;
    ++referee;
    both += draw.selects(i, 500'000);
  }
  EXPECT_NEAR(referee, 1'000, 127);
  EXPECT_NEAR(both, referee / 2, 64) << "by another number than the audit";
}

TEST(Draw, EveryAuditorIsAsLikely) {
  const Draw draw = draw_of(message_of(10));
  const auto all = candidates(10);
  std::map<PublicKey, int> counts;
  for (std::uint64_t i = 0; i < 5'000; ++i) ++counts[*draw.auditor(i, all, {})];
  double chi = 0;
  for (const Draw::Candidate& one : all) chi += std::pow(counts[one.key] - 500.0, 2) / 500.0;
  EXPECT_LT(chi, 27.9) << "9 degrees of freedom, p = 0.001";
}

TEST(Draw, AnExcludedOwnerIsNeverTheAuditor) {
  const Draw draw = draw_of(message_of(11));
  auto all = candidates(6);
  all[1].owner = all[0].owner;
  const std::vector<Hash256> excluded{all[0].owner, all[2].owner};
  for (std::uint64_t i = 0; i < 500; ++i) {
    const auto free = draw.auditor(i, all, {});
    const auto chosen = draw.auditor(i, all, excluded);
    ASSERT_TRUE(free && chosen);
    EXPECT_TRUE(*chosen == all[3].key || *chosen == all[4].key || *chosen == all[5].key);
    const bool was_allowed = *free != all[0].key && *free != all[1].key && *free != all[2].key;
    EXPECT_TRUE(!was_allowed || *free == *chosen)
        << "others going changes nothing for who is drawn";
  }
  EXPECT_FALSE(draw.auditor(
      0, all,
      std::vector<Hash256>{all[0].owner, all[2].owner, all[3].owner, all[4].owner, all[5].owner}));
  EXPECT_FALSE(draw.auditor(0, {}, {}));
}

}  // namespace
}  // namespace hearth::ledger

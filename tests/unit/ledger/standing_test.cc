#include "ledger/standing.h"

#include <gtest/gtest.h>

namespace hearth::ledger {
namespace {

constexpr std::int64_t kDaySeconds = 24 * 3'600;
constexpr std::int64_t kStart = 20'000 * kDaySeconds;
const Policy kPolicy;

// Served and audited right so often.
Standing proven(std::int64_t windows, std::int64_t now = kStart) {
  Standing standing(kStart, true);
  for (std::int64_t i = 0; i < windows; ++i) {
    standing.serve(10, now);
    standing.was_right();
  }
  return standing;
}

TEST(Standing, DuesAreChecksDaysAndTime) {
  Standing standing(kStart, false);
  for (int i = 0; i < 200; ++i) standing.check(kPolicy, 1, kStart + kDaySeconds);
  EXPECT_EQ(standing.level(kPolicy, kStart + 30 * kDaySeconds), Level::kNewcomer)
      << "all on one day";
  EXPECT_EQ(standing.vest(kPolicy, kStart + 30 * kDaySeconds), 0) << "a newcomer spends nothing";
  standing.check(kPolicy, 1, kStart + 2 * kDaySeconds);
  standing.check(kPolicy, 1, kStart + 3 * kDaySeconds);
  EXPECT_EQ(standing.level(kPolicy, kStart + 3 * kDaySeconds), Level::kNewcomer) << "too soon";
  standing.check(kPolicy, 1, kStart + 7 * kDaySeconds);
  EXPECT_EQ(standing.level(kPolicy, kStart + 7 * kDaySeconds), Level::kProbation);
  EXPECT_EQ(standing.escrow(), 203);
}

TEST(Standing, LevelsFollowWhatWasAuditedRight) {
  EXPECT_EQ(proven(83).level(kPolicy, kStart), Level::kProbation);
  EXPECT_EQ(proven(84).level(kPolicy, kStart), Level::kRegular);
  EXPECT_EQ(proven(2'000).level(kPolicy, kStart), Level::kRegular) << "too young";
  EXPECT_EQ(proven(2'000).level(kPolicy, kStart + 60 * kDaySeconds), Level::kVeteran);
  EXPECT_EQ(proven(1'999).level(kPolicy, kStart + 60 * kDaySeconds), Level::kRegular);
}

TEST(Standing, NobodyIsExemptFromAudits) {
  const std::int64_t later = kStart + 60 * kDaySeconds;
  EXPECT_EQ(proven(49).audit_rate(kPolicy, kStart), kMillion);
  EXPECT_EQ(proven(50).audit_rate(kPolicy, kStart), 300'000);
  EXPECT_EQ(proven(84).audit_rate(kPolicy, kStart), 25 * kMillion / 84);
  EXPECT_EQ(proven(500).audit_rate(kPolicy, kStart), 50'000);
  EXPECT_EQ(proven(1'000'000).audit_rate(kPolicy, later), 30'000);
  EXPECT_EQ(proven(2'000).audit_rate(kPolicy, later, true), kMillion) << "a program's first use";
  Standing changed = proven(2'000);
  changed.change(later);
  EXPECT_EQ(changed.audit_rate(kPolicy, later + kDaySeconds - 1), 90'000);
  EXPECT_EQ(changed.audit_rate(kPolicy, later + kDaySeconds), 30'000);
  std::int64_t last = kMillion;
  for (std::int64_t n = 84; n < 3'000; ++n) {
    const std::int64_t rate = proven(n).audit_rate(kPolicy, later);
    ASSERT_LE(rate, last);
    ASSERT_GE(rate, 30'000);
    last = rate;
  }
}

// Its rate falls with what it could lose, not with its standing alone.
TEST(Standing, WhoHasLittleAtStakeIsAuditedMore) {
  const std::int64_t later = kStart + 91 * kDaySeconds;
  Standing veteran = proven(2'000);
  EXPECT_EQ(veteran.audit_rate(kPolicy, later, false, 10), 30'000);
  EXPECT_EQ(veteran.audit_rate(kPolicy, later, false, 4'000), 459'701) << "a large window";
  EXPECT_EQ(veteran.vest(kPolicy, later), 20'000) << "it was away, and took everything";
  veteran.serve(10, later);
  EXPECT_EQ(veteran.audit_rate(kPolicy, later, false, 10), kMillion);
  for (int i = 0; i < 19; ++i) veteran.serve(10, later);
  EXPECT_EQ(veteran.audit_rate(kPolicy, later, false, 10), 114'925);
  EXPECT_EQ(veteran.audit_rate(kPolicy, later), 30'000) << "where no account pays";
}

TEST(Standing, PayVestsBehindTheEscrow) {
  Standing standing = proven(300);
  EXPECT_EQ(standing.escrow(), 3'000);
  EXPECT_EQ(standing.vest(kPolicy, kStart + 72 * 3'600 - 1), 0) << "too soon";
  EXPECT_EQ(standing.vest(kPolicy, kStart + 72 * 3'600), 1'000) << "all but the latest 200 windows";
  EXPECT_EQ(standing.vest(kPolicy, kStart + 29 * kDaySeconds), 0);
  EXPECT_EQ(standing.escrow(), 2'000);
  EXPECT_EQ(standing.vest(kPolicy, kStart + 30 * kDaySeconds), 2'000) << "who leaves gets the rest";
}

TEST(Standing, ProbationHoldsHalfBack) {
  Standing standing(kStart, true);
  for (int i = 0; i < 300; ++i) standing.serve(10, kStart);
  for (int i = 0; i < 83; ++i) standing.was_right();
  EXPECT_EQ(standing.vest(kPolicy, kStart + 9 * kDaySeconds), 500);
  EXPECT_EQ(standing.vest(kPolicy, kStart + 9 * kDaySeconds), 0) << "and not again";
  standing.was_right();
  EXPECT_EQ(standing.vest(kPolicy, kStart + 9 * kDaySeconds), 500) << "a regular gets the rest";
  EXPECT_EQ(standing.escrow(), 2'000);
}

TEST(Standing, AFaultIsMildAndRateLimited) {
  Standing standing = proven(500);
  EXPECT_EQ(standing.fault(kPolicy, 10, kStart + kDaySeconds), 800);
  EXPECT_EQ(standing.escrow(), 4'200);
  EXPECT_EQ(standing.audited_right(), 250);
  EXPECT_EQ(standing.level(kPolicy, kStart + kDaySeconds), Level::kRegular);
  EXPECT_EQ(standing.fault(kPolicy, 10, kStart + 2 * kDaySeconds), 800);
  EXPECT_EQ(standing.faults(kPolicy, kStart + 2 * kDaySeconds), 2);
  EXPECT_EQ(standing.faults(kPolicy, kStart + 31 * kDaySeconds), 1);
  EXPECT_EQ(standing.fault(kPolicy, 10, kStart + 3 * kDaySeconds), 800);
  EXPECT_EQ(standing.level(kPolicy, kStart + 3 * kDaySeconds), Level::kNewcomer)
      << "three in 30 days";
  EXPECT_EQ(standing.escrow(), 2'600) << "what it has earned stays where it is";
  EXPECT_FALSE(standing.is_tombstoned());

  Standing careful = proven(500);
  for (int i = 0; i < 10; ++i) (void)careful.fault(kPolicy, 10, kStart + 31 * kDaySeconds * i);
  EXPECT_NE(careful.level(kPolicy, kStart + 400 * kDaySeconds), Level::kNewcomer) << "one a month";
  EXPECT_EQ(proven(3).fault(kPolicy, 10, kStart), 30) << "no more than there is";
}

TEST(Standing, FraudCostsEverything) {
  Standing standing = proven(2'500);
  EXPECT_EQ(standing.vest(kPolicy, kStart + 4 * kDaySeconds), 23'000);
  EXPECT_EQ(standing.seize(), 2'000);
  EXPECT_EQ(standing.escrow(), 0);
  EXPECT_TRUE(standing.is_tombstoned());
  EXPECT_EQ(standing.vest(kPolicy, kStart + 90 * kDaySeconds), 0);
}

TEST(Standing, EqualHistoriesHaveEqualHashes) {
  EXPECT_EQ(proven(40).hash(), proven(40).hash());
  EXPECT_NE(proven(40).hash(), proven(41).hash());
  Standing one = proven(40);
  (void)one.fault(kPolicy, 1, kStart);
  EXPECT_NE(one.hash(), proven(40).hash());
}

}  // namespace
}  // namespace hearth::ledger

// No clock: steps take what the test says.
#include "node/runner/draft_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth::node {
namespace {

constexpr Duration kMs = std::chrono::milliseconds(1);

std::vector<double> odds_of(double each, std::size_t count = 16) {
  return std::vector<double>(count, each);
}

TEST(DraftPolicy, AtFirstAWiderStepIsTried) {
  const StepCosts costs;
  EXPECT_GT(drafts_worth(costs, 1, 1, odds_of(0.9)), 4U);
  EXPECT_EQ(drafts_worth(costs, 1, 1, odds_of(0.01)), 0U);
  EXPECT_EQ(drafts_worth(costs, 1, 1, {}), 0U);
}

TEST(DraftPolicy, RowsThatCostNothingAreFilled) {
  StepCosts costs;
  for (std::uint32_t rows = 1; rows <= 17; ++rows) costs.take(rows, 40 * kMs);
  EXPECT_EQ(drafts_worth(costs, 1, 1, odds_of(0.5)), 16U);
}

TEST(DraftPolicy, RowsThatCostAsMuchAsAStepAreNot) {
  StepCosts costs;
  for (std::uint32_t rows = 1; rows <= 17; ++rows) costs.take(rows, rows * 40 * kMs);
  EXPECT_EQ(drafts_worth(costs, 1, 1, odds_of(0.95)), 0U);
}

TEST(DraftPolicy, TheNumberFollowsOddsAndCosts) {
  StepCosts costs;  // 10 ms and 2 ms a row
  for (std::uint32_t rows = 1; rows <= 33; ++rows) costs.take(rows, (8 + 2 * rows) * kMs);
  const std::uint32_t few = drafts_worth(costs, 1, 1, odds_of(0.5, 32));
  const std::uint32_t many = drafts_worth(costs, 1, 1, odds_of(0.95, 32));
  EXPECT_GE(few, 1U);
  EXPECT_LE(few, 3U);
  EXPECT_GT(many, 6U);
}

// Steps of a full batch take as long as they have rows: what a draft adds, another row could.
TEST(DraftPolicy, AFullBatchHasNoRoomForDrafts) {
  StepCosts costs;
  for (std::uint32_t rows = 1; rows <= 64; ++rows) {
    costs.take(rows, std::max(rows, 8U) * kMs);  // a step of up to 8 rows costs the same
  }
  EXPECT_EQ(drafts_worth(costs, 1, 1, odds_of(0.8, 7)), 7U);
  EXPECT_EQ(drafts_worth(costs, 32, 32, odds_of(0.8)), 0U);
}

TEST(DraftPolicy, AStepThatTurnedOutDearIsTriedAgainLater) {
  StepCosts costs;
  for (int i = 0; i < 10; ++i) costs.take(1, 10 * kMs);
  for (std::uint32_t rows = 2; rows <= 17; ++rows) costs.take(rows, 900 * kMs);  // a busy moment
  EXPECT_EQ(drafts_worth(costs, 1, 1, odds_of(0.9)), 0U);
  for (std::uint32_t i = 0; i < StepCosts::kForgottenAfter; ++i) costs.take(1, 10 * kMs);
  EXPECT_GT(drafts_worth(costs, 1, 1, odds_of(0.9)), 0U);
}

TEST(DraftPolicy, OneSlowStepDoesNotChangeTheCostMuch) {
  StepCosts costs;
  for (int i = 0; i < 50; ++i) costs.take(1, 10 * kMs);
  const double before = costs.of(1);
  costs.take(1, 10'000 * kMs);
  EXPECT_LT(costs.of(1), before * 1.1);
  for (int i = 0; i < 100; ++i) costs.take(1, 40 * kMs);
  EXPECT_GT(costs.of(1), before * 3.5) << "a machine that became slower is believed";
}

TEST(DraftPolicy, UnknownCountsLieBetweenKnownOnes) {
  StepCosts costs;
  costs.take(1, 10 * kMs);
  costs.take(9, 26 * kMs);
  EXPECT_NEAR(costs.of(5) / costs.of(1), 1.8, 1e-9);
  EXPECT_NEAR(costs.of(17) / costs.of(1), 4.2, 1e-9);
  EXPECT_GT(costs.of(200), costs.of(100));
  StepCosts wide;
  wide.take(8, 10 * kMs);
  EXPECT_LT(wide.of(1), wide.of(8));
}

TEST(DraftPolicy, OddsFollowTheText) {
  DraftOdds odds;
  EXPECT_LT(odds.of(2), odds.of(8));
  EXPECT_LT(odds.of(8), odds.of(16));
  for (int i = 0; i < 60; ++i) odds.take(8, false);
  EXPECT_LT(odds.of(8), 0.02);
  EXPECT_GT(odds.of(16), 0.8) << "longer matches are counted by themselves";
  for (int i = 0; i < 60; ++i) odds.take(8, true);
  EXPECT_GT(odds.of(8), 0.95);
  EXPECT_EQ(odds.of(8), odds.of(15));
}

TEST(DraftPolicy, TheTimeOfDraftsCounts) {
  StepCosts costs;  // 10 ms, whatever its rows
  for (std::uint32_t rows = 1; rows <= 17; ++rows) costs.take(rows, 10 * kMs);
  EXPECT_EQ(step_worth(costs, 1, 1, odds_of(0.8), 0.0).drafts, 16U);
  const Worth some = step_worth(costs, 1, 1, odds_of(0.8), 0.002);
  EXPECT_GE(some.drafts, 2U);
  EXPECT_LE(some.drafts, 5U);
  EXPECT_GT(some.rate, 100.0);
  EXPECT_EQ(step_worth(costs, 1, 1, odds_of(0.8), 0.009).drafts, 0U);
}

// Passes tokens of 10 ms while the trial runs without the model.
void pass_plain(DraftTrial& trial, std::uint32_t tokens) {
  for (std::uint32_t i = 0; i < tokens; ++i) {
    ASSERT_FALSE(trial.asks()) << i;
    trial.take(10 * kMs, 1);
  }
}

// Four stages take 50 ms together. With one draft always right and none behind it, a round takes 50
// ms for the token and a stage's 12.5 ms for what follows.
TEST(DraftPolicy, DraftsThatFollowOverlapWithTheStages) {
  StepCosts costs;
  for (std::uint32_t rows = 1; rows <= 33; ++rows) costs.take(rows, 50 * kMs);
  EXPECT_EQ(ahead_worth(costs, 1, 0.9, 0.0, 8).drafts, 0U) << "one stage is never idle";
  EXPECT_EQ(ahead_worth(costs, 4, 0.9, 0.0, 0).drafts, 0U);
  EXPECT_LE(ahead_worth(costs, 4, 0.0, 0.0, 8).rate, 20.0 * 1.0001) << "no draft is right";
  const Worth slow = ahead_worth(costs, 4, 0.62, 0.012, 8);
  const Worth quick = ahead_worth(costs, 4, 0.62, 0.006, 8);
  EXPECT_EQ(slow.drafts, 1U) << "a stage's time is that of one draft";
  EXPECT_EQ(quick.drafts, 2U);
  EXPECT_GT(slow.rate, 1.1 * step_worth(costs, 1, 1, odds_of(0.62), 0.012).rate);
  EXPECT_GT(quick.rate, slow.rate);
  EXPECT_LT(quick.rate, step_worth(costs, 1, 1, odds_of(0.62), 0.0).rate)
      << "drafts that take no time are better made before the step";
}

TEST(DraftTrialTest, AModelThatGainsIsKeptAndMeasuredAgain) {
  DraftTrial trial;
  pass_plain(trial, DraftTrial::kPlainTokens);
  EXPECT_TRUE(trial.begins());
  std::uint32_t tokens = 0;
  for (; trial.asks() && tokens < 10'000; tokens += 4) trial.take(20 * kMs, 4);
  EXPECT_EQ(tokens, DraftTrial::kAgainTokens);
  pass_plain(trial, DraftTrial::kPlainTokens);
  EXPECT_TRUE(trial.asks()) << "no pause follows a won trial";
  EXPECT_FALSE(trial.begins());
}

TEST(DraftTrialTest, TheLossSetsThePause) {
  DraftTrial trial;
  pass_plain(trial, DraftTrial::kPlainTokens);
  std::uint32_t tokens = 0;
  for (; trial.asks() && tokens < 10'000; ++tokens) trial.take(30 * kMs, 1);
  EXPECT_LT(tokens, 6U) << "it is over before it has lost much";
  pass_plain(trial, 390);
  for (std::uint32_t i = 0; i < 200 && !trial.asks(); ++i) trial.take(10 * kMs, 1);
  EXPECT_TRUE(trial.begins()) << "it is tried again";
}

TEST(DraftTrialTest, AModelWithoutGainIsNotKept) {
  DraftTrial trial;
  pass_plain(trial, DraftTrial::kPlainTokens);
  for (std::uint32_t i = 0; i < DraftTrial::kTrialTokens; ++i) {
    ASSERT_TRUE(trial.asks());
    trial.take(std::chrono::microseconds(9900), 1);
  }
  pass_plain(trial, DraftTrial::kPauseTokens);
  EXPECT_TRUE(trial.asks());
}

// The machine slept for an hour; the loss that counts is bounded.
TEST(DraftTrialTest, TheModelIsTriedAgainAfterALongSleep) {
  DraftTrial trial;
  pass_plain(trial, DraftTrial::kPlainTokens);
  trial.take(std::chrono::hours(1), 1);
  EXPECT_FALSE(trial.asks());
  std::uint32_t tokens = 0;
  for (; !trial.asks() && tokens < 100'000; ++tokens) trial.take(10 * kMs, 1);
  EXPECT_LT(tokens, 13'000U);
}

}  // namespace
}  // namespace hearth::node

#include "cli/plan/words.h"

#include <gtest/gtest.h>

namespace hearth::cli {
namespace {

using placement::Gain;

TEST(PlanWords, EveryGainNamesItsChangeAndBothFigures) {
  placement::Problem problem;
  problem.nodes.resize(24);
  problem.nodes[0].name = "card-0";
  const std::vector<std::uint32_t> all(24, 0);
  using Change = Gain::Change;
  EXPECT_EQ(gain_text(problem, {Change::kMemory, {0}, 55.56, 125.0}),
            "twice the memory in card-0: 125 instead of 55.6 tokens/s");
  EXPECT_EQ(gain_text(problem, {Change::kSpeed, {0}, 55.56, 125.0}),
            "a machine twice as fast in place of card-0: 125 instead of 55.6 tokens/s");
  EXPECT_EQ(gain_text(problem, {Change::kSpeed, all, 24'000.0, 48'000.0}),
            "machines twice as fast in place of the 24 machines like card-0: 48000 instead of "
            "24000 tokens/s");
  EXPECT_EQ(gain_text(problem, {Change::kLinkRate, {}, 55.56, 125.0}),
            "links of ten times the rate: 125 instead of 55.6 tokens/s");
  EXPECT_EQ(gain_text(problem, {Change::kLinkDelay, {}, 55.56, 125.0}),
            "half the delay of every link: 125 instead of 55.6 tokens/s");
  EXPECT_EQ(gain_text(problem, {Change::kThroughput, {}, 12'000.0, 13'333.0, 119.0}),
            "--optimise throughput: 13333 instead of 12000 tokens/s for all streams together, with "
            "119 for one stream");
}

TEST(PlanWords, NumbersHaveNoExponent) {
  EXPECT_EQ(plan_number(0.0, 2), "0");
  EXPECT_EQ(plan_number(0.19134, 3), "0.191");
  EXPECT_EQ(plan_number(0.00012345, 2), "0.00012");
  EXPECT_EQ(plan_number(9.0, 2), "9");
  EXPECT_EQ(plan_number(16.8, 2), "17");
  EXPECT_EQ(plan_number(900.4, 2), "900");
  EXPECT_EQ(plan_number(1234567.0, 2), "1234567");
  EXPECT_EQ(plan_number(-2.5, 3), "-2.5");
  EXPECT_EQ(plan_milliseconds(0.0005), "0.5 ms");
  EXPECT_EQ(plan_milliseconds(12.5), "12500 ms");
}

}  // namespace
}  // namespace hearth::cli

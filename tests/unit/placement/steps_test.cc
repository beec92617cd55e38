#include "placement/steps.h"

#include <gtest/gtest.h>

namespace hearth::placement {
namespace {

// Stages of `stage` seconds, with `wire` between two: the same for any rows, or by rows.
StepTimes times_of(std::uint32_t stages, RowSeconds stage, RowSeconds wire) {
  StepTimes times{stages, 16};
  times.ring = {stages * (stage.one + wire.one), stages * (stage.batch + wire.batch)};
  times.parts = {stage, wire};  // the others are like these
  return times;
}

TEST(StepsTest, ShortLinksNeedOneStepMoreThanStages) {
  for (const std::uint32_t stages : {1U, 2U, 8U, 100U}) {
    const StepTimes times = times_of(stages, {1e-3, 2e-3}, {1e-6, 2e-6});
    for (const std::uint32_t sequences : {1U, 16U, 4096U}) {
      EXPECT_EQ(steps_of_sequences(times, sequences), stages + 1);
    }
    EXPECT_EQ(steps_at_most(times), stages + 1);
  }
}

TEST(StepsTest, ASlowStageNeedsNoMore) {
  StepTimes times = times_of(4, {1e-3, 1e-3}, {0.0, 0.0});
  times.parts = {{3e-3, 3e-3}, {1e-3, 1e-3}};
  times.ring = {6e-3, 6e-3};
  EXPECT_EQ(steps_of_sequences(times, 64), 5U);
}

// A round takes (10 + 30) * 4 ms: sixteen steps of 10 ms.
TEST(StepsTest, LongLinksNeedWhatIsUnderWayOnThem) {
  const StepTimes times = times_of(4, {10e-3, 10e-3}, {30e-3, 30e-3});
  StepTimes delayed = times;
  delayed.parts.pop_back();  // a delay occupies nothing
  EXPECT_EQ(steps_of_sequences(delayed, 64), 16U);
  EXPECT_EQ(steps_of_rows(delayed, 128.0), 17U);
  EXPECT_EQ(steps_of_sequences(times, 64), 5U);  // bytes occupy the link, for 30 of 40 ms
  EXPECT_EQ(steps_of_rows(times, 128.0), 7U);
}

TEST(StepsTest, TheNumberFollowsTheRows) {
  // 10 ms of weights whatever the rows; the wire takes 1 ms a row.
  const StepTimes times = times_of(8, {10e-3, 10e-3}, {1e-3, 16e-3});
  EXPECT_EQ(steps_of_sequences(times, 1), 9U);
  EXPECT_EQ(steps_of_sequences(times, 100), 13U);
  for (const std::uint32_t sequences : {1U, 50U, 100U, 400U, 4000U}) {
    const auto seconds = [&](std::uint32_t steps) {
      const StepSeconds each = times.at(std::max(1.0, 1.0 * sequences / steps));
      return std::max(each.ring, steps * each.slowest);
    };
    const std::uint32_t steps = steps_of_sequences(times, sequences);
    EXPECT_LE(steps, steps_at_most(times)) << sequences;
    // No other number is quicker.
    for (std::uint32_t other = 9; other <= kMostSteps; ++other) {
      const bool is_next = other == steps + 1;  // the best may lie between two numbers
      EXPECT_LE(seconds(steps), seconds(other) * (is_next ? 1.05 : 1.0 + 1e-9))
          << sequences << ", " << steps << ", " << other;
    }
  }
}

TEST(StepsTest, TheirNumberIsBounded) {
  StepTimes times = times_of(2, {1e-6, 1e-6}, {0.0, 0.0});
  times.ring = {10.0, 10.0};
  EXPECT_EQ(steps_of_sequences(times, 1000), kMostSteps);
  EXPECT_EQ(steps_of_rows(times, 1.0), kMostSteps);
  const StepTimes many = times_of(100, {1e-6, 1e-6}, {1.0, 1.0});
  EXPECT_EQ(steps_of_sequences(many, 1000), 101U);
}

// The slowest of one row is not the slowest of many: a GPU with many layers, and a processor with
// few.
TEST(StepsTest, TheSlowestPartDependsOnTheRows) {
  StepTimes times{2, 16};
  times.parts = {{40e-3, 42e-3}, {10e-3, 45e-3}};
  times.ring = {50e-3, 87e-3};
  EXPECT_DOUBLE_EQ(times.at(1.0).slowest, 40e-3);
  EXPECT_DOUBLE_EQ(times.at(16.0).slowest, 45e-3);
  EXPECT_NEAR(times.at(128.0).slowest, 10e-3 + 35e-3 * 127 / 15, 1e-9);
  EXPECT_EQ(steps_of_rows(times, 128.0), 3U);
}

TEST(StepsTest, AStepHasNoMoreRowsThanItMay) {
  const StepTimes times = times_of(8, {10e-3, 10e-3}, {1e-3, 16e-3});
  EXPECT_EQ(steps_of_sequences(times, 4096, 4), 11U);  // of four rows each: 8 * 14 ms by 10 ms
}

// A batch that was measured as quicker than one row is noise.
TEST(StepsTest, ABatchIsNeverQuicker) {
  const StepTimes times = times_of(2, {2e-3, 1e-3}, {0.0, 0.0});
  EXPECT_DOUBLE_EQ(times.at(16.0).ring, 4e-3);
  EXPECT_DOUBLE_EQ(times.at(512.0).slowest, 2e-3);
}

}  // namespace
}  // namespace hearth::placement

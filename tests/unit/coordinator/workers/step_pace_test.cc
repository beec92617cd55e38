#include "coordinator/workers/step_pace.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hearth::coordinator {
namespace {

using std::chrono::milliseconds;

struct StepPaceTest : ::testing::Test {
  StepPace pace;
  TimePoint now{};
  StepPace::Totals totals;

  // Four heartbeats a second, of so many steps each.
  void beat(int seconds, std::uint64_t steps, double step, std::uint64_t rows = 1,
            double lateness = 0.0) {
    for (int i = 0; i < 4 * seconds; ++i) {
      now += milliseconds(250);
      totals.steps += steps;
      totals.rows += rows * steps;
      totals.busy_seconds += step * static_cast<double>(steps);
      totals.lateness = lateness;
      pace.report(now, totals);
    }
  }
};

TEST_F(StepPaceTest, OneThatComputesLongerIsSlowAfterTwoWindows) {
  beat(5, 10, 0.01);
  EXPECT_EQ(pace.slowness(), 1.0);
  beat(1, 4, 0.1);
  EXPECT_LT(pace.slowness(), 3.0) << "it may be a moment";
  beat(2, 4, 0.1);
  EXPECT_NEAR(pace.slowness(), 10.0, 0.5);
  beat(60, 4, 0.1);
  EXPECT_NEAR(pace.slowness(), 10.0, 0.5) << "it is not forgotten while it lasts";
  beat(3, 10, 0.01);
  EXPECT_EQ(pace.slowness(), 1.0);
}

TEST_F(StepPaceTest, OneThatHearsLateIsSlow) {
  beat(5, 10, 0.01, 1, 0.001);
  beat(3, 3, 0.012, 1, 0.07);
  EXPECT_GT(pace.slowness(), 5.0);
}

TEST_F(StepPaceTest, WhatIsLateWhileNothingIsComputedDoesNotCount) {
  beat(5, 10, 0.01);
  beat(5, 0, 0.0, 1, 0.5);
  beat(3, 10, 0.01);
  EXPECT_EQ(pace.slowness(), 1.0);
}

TEST_F(StepPaceTest, LargerStepsAreComparedWithLargeOnes) {
  beat(5, 10, 0.01);
  beat(5, 2, 0.12, 64);
  EXPECT_EQ(pace.slowness(), 1.0);
  beat(5, 1, 1.2, 64);
  beat(20, 1, 1.2, 64);
  EXPECT_NEAR(pace.slowness(), 10.0, 0.5);
}

TEST_F(StepPaceTest, ALongerContextIsNoFault) {
  double step = 0.01;
  for (int i = 0; i < 200; ++i) beat(1, 10, step *= 1.02);
  EXPECT_GT(step, 0.3);
  EXPECT_EQ(pace.slowness(), 1.0);
}

TEST_F(StepPaceTest, MillisecondsAreNoise) {
  beat(5, 10, 0.0005);
  beat(5, 10, 0.01);
  EXPECT_EQ(pace.slowness(), 1.0);
}

TEST_F(StepPaceTest, ASessionThatBeginsAnewAndNonsenseAreNothing) {
  beat(5, 10, 0.01);
  totals = {};
  beat(3, 10, 0.01);
  EXPECT_EQ(pace.slowness(), 1.0);
  pace.report(now, {1, 1, std::nan(""), 0.0});
  pace.report(now, {1, 1, 1.0, -1.0});
  beat(3, 10, 0.01);
  EXPECT_EQ(pace.slowness(), 1.0);
}

}  // namespace
}  // namespace hearth::coordinator

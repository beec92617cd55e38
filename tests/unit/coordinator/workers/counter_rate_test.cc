#include "coordinator/workers/counter_rate.h"

#include <gtest/gtest.h>

#include <limits>

namespace hearth::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(CounterRate, IsExactForSteadyGrowth) {
  CounterRate rate;
  TimePoint now = seconds(50);
  EXPECT_EQ(rate.per_second(now), 0.0);
  rate.report(now, 1000.0);
  EXPECT_EQ(rate.per_second(now), 0.0) << "one report is no rate";
  for (int beat = 1; beat <= 400; ++beat) {
    now += milliseconds(250);
    rate.report(now, 1000.0 + 2.0 * beat);
    ASSERT_DOUBLE_EQ(rate.per_second(now), 8.0) << beat;
  }
}

TEST(CounterRate, FollowsAChangeWithinItsWindow) {
  CounterRate rate;
  TimePoint now = seconds(1);
  for (int beat = 0; beat < 60; ++beat, now += milliseconds(250)) rate.report(now, 100.0 * beat);
  EXPECT_DOUBLE_EQ(rate.per_second(now), 400.0);
  for (int beat = 0; beat < 24; ++beat, now += milliseconds(250)) rate.report(now, 5900.0);
  EXPECT_EQ(rate.per_second(now), 0.0) << "idle for longer than the window";
}

TEST(CounterRate, EndsWithTheReports) {
  CounterRate rate;
  rate.report(seconds(1), 0.0);
  rate.report(seconds(2), 10.0);
  EXPECT_DOUBLE_EQ(rate.per_second(seconds(2)), 10.0);
  EXPECT_DOUBLE_EQ(rate.per_second(seconds(6)), 10.0);
  EXPECT_EQ(rate.per_second(seconds(8)), 0.0);
}

TEST(CounterRate, BeginsAnewWhereTheCounterDoes) {
  CounterRate rate;
  rate.report(seconds(1), 1e9);
  rate.report(seconds(2), 5.0);
  EXPECT_EQ(rate.per_second(seconds(2)), 0.0);
  rate.report(seconds(3), 8.0);
  EXPECT_DOUBLE_EQ(rate.per_second(seconds(3)), 3.0);
}

TEST(CounterRate, SurvivesWhatIsNoNumber) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CounterRate rate;
    rate.report(seconds(1), 1.0);
    rate.report(seconds(2), bad);
    EXPECT_EQ(rate.per_second(seconds(2)), 0.0);
    rate.report(seconds(3), 4.0);
    rate.report(seconds(4), 6.0);
    EXPECT_DOUBLE_EQ(rate.per_second(seconds(4)), 2.0);
  }
}

}  // namespace
}  // namespace hearth::coordinator

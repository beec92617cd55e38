#include "proto/link/rate_trial.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hearth {
namespace {

// A wire behind a token bucket: `burst` bytes pass at once when it is full.
struct Bucket {
  double bytes_per_second = 0.0;
  double burst = 0.0;
  double tokens = burst;

  double seconds(double bytes) {
    const double waits = std::max(0.0, bytes - tokens) / bytes_per_second;
    tokens = std::max(0.0, tokens - bytes);
    return waits;
  }
};

struct Trial {
  double bytes_per_second = 0.0;
  double seconds = 0.0;
};

Trial measure(Bucket bucket) {
  RateTrial trial;
  Trial result;
  for (bool enough = false; !enough;) {
    const RateTrial::Pings pings = trial.next();
    const double seconds = bucket.seconds(static_cast<double>(pings.count) * pings.bytes);
    result.seconds += seconds;
    enough = trial.took(seconds);
  }
  result.bytes_per_second = trial.bytes_per_second();
  return result;
}

TEST(RateTrialTest, ABurstIsNoRate) {
  for (const double burst : {0.0, 65'536.0, 200'000.0, 500'000.0}) {
    for (const double megabits : {3.0, 10.0, 30.0, 100.0, 300.0}) {
      const double rate = megabits * 1e6 / 8;
      const Trial trial = measure({rate, burst});
      EXPECT_NEAR(trial.bytes_per_second, rate, rate * 0.01) << megabits << ", " << burst;
      EXPECT_LT(trial.seconds, 2.0) << megabits << ", " << burst;
    }
  }
}

// The first pings are late on a machine that has no time for them, so the wire looks slow. Its rate
// is not that of a burst.
TEST(RateTrialTest, ABusyMachineIsNoReasonToTakeABurstForTheRate) {
  const double rate = 1e7;
  for (const double late : {0.05, 0.2, 1.0}) {
    RateTrial trial;
    Bucket bucket{rate, 0.02 * rate};
    bool enough = false;
    for (int sent = 0; !enough; ++sent) {
      ASSERT_LT(sent, 20);
      const RateTrial::Pings pings = trial.next();
      const double seconds = bucket.seconds(static_cast<double>(pings.count) * pings.bytes);
      enough = trial.took(sent == 0 ? seconds + late : seconds);
      if (sent == 0) bucket.tokens = bucket.burst;  // it fills meanwhile
    }
    EXPECT_LT(trial.bytes_per_second(), 1.45 * rate) << late;
    EXPECT_GT(trial.bytes_per_second(), 0.9 * rate) << late;
  }
}

TEST(RateTrialTest, AQuickWireIsMeasuredWithManyBytes) {
  const Trial trial = measure({1.25e9, 1e6});
  EXPECT_NEAR(trial.bytes_per_second, 1.25e9, 0.15 * 1.25e9);
  EXPECT_NEAR(measure({1.25e8, 5e5}).bytes_per_second, 1.25e8, 0.15 * 1.25e8);
}

TEST(RateTrialTest, NoTimeAtAllIsAFigureToo) {
  RateTrial trial;
  int sent = 1;
  for (; !trial.took(0.0) && sent < 100; ++sent) {
  }
  EXPECT_EQ(sent, 6);
  EXPECT_GT(trial.bytes_per_second(), 0.0);
}

}  // namespace
}  // namespace hearth

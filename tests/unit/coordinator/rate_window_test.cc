#include "coordinator/rate_window.h"

#include <gtest/gtest.h>

namespace hearth::coordinator {
namespace {

TEST(RateWindow, CountsTheLastTenSeconds) {
  RateWindow window;
  const TimePoint start = std::chrono::seconds(1'000);
  EXPECT_EQ(window.per_second(start), 0.0);
  for (int second = 0; second < 10; ++second) {
    window.count(start + std::chrono::seconds(second), 30);
  }
  EXPECT_EQ(window.per_second(start + std::chrono::seconds(9)), 30.0);
  EXPECT_EQ(window.per_second(start + std::chrono::seconds(14)), 15.0);
  EXPECT_EQ(window.per_second(start + std::chrono::seconds(60)), 0.0);
}

}  // namespace
}  // namespace hearth::coordinator

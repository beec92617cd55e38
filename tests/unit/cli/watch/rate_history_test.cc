#include "cli/watch/rate_history.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace hearth::cli {
namespace {

TEST(RateHistory, ALineNeedsTwoReadings) {
  RateHistory history;
  EXPECT_EQ(history.line(), "");
  history.add(3.0);
  EXPECT_EQ(history.line(), "");
  history.add(3.0);
  EXPECT_EQ(history.line(), "██  at most 3.0");
}

TEST(RateHistory, BlocksAreInHeightsOfTheLargest) {
  RateHistory history;
  for (const double rate : {0.0, 10.0, 20.0, 35.0, 70.0}) history.add(rate);
  EXPECT_EQ(history.line(), "▁▂▃▅█  at most 70.0");
}

TEST(RateHistory, TheOldestReadingsGo) {
  RateHistory history;
  history.add(1e6);
  for (std::size_t i = 0; i < RateHistory::kReadings; ++i) history.add(1.0);
  std::string blocks;
  for (std::size_t i = 0; i < RateHistory::kReadings; ++i) blocks += "█";
  EXPECT_EQ(history.line(), blocks + "  at most 1.0");
}

TEST(RateHistory, WhatIsNoRateCountsAsNothing) {
  RateHistory history;
  for (const double rate : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(), 0.0}) {
    history.add(rate);
  }
  EXPECT_EQ(history.line(), "▁▁▁▁  at most 0.0");
}

}  // namespace
}  // namespace hearth::cli

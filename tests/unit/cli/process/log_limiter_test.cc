#include "cli/process/log_limiter.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth::cli {
namespace {

using std::chrono::seconds;

struct LogLimiterTest : ::testing::Test {
  LogLimiter limiter;
  LogLimiter::Time now{};
  // How many of so many lines are written, each with another number.
  std::uint32_t written(const std::string& line, std::uint32_t lines) {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < lines; ++i) {
      count += limiter.admit(line + " of 10.0.0." + std::to_string(i), now) ? 1 : 0;
    }
    return count;
  }
};

TEST_F(LogLimiterTest, AFloodHasItsBurstAndThenARate) {
  EXPECT_EQ(written("refused a link", 10'000), LogLimiter::kBurst);
  EXPECT_EQ(written("the ledger is wrong", 1), 1U) << "others are written";
  now += 3 * LogLimiter::kInterval;
  EXPECT_EQ(limiter.admit("refused a link of 10.0.0.1", now), 10'000U - LogLimiter::kBurst);
  EXPECT_EQ(limiter.admit("refused a link of 10.0.0.2", now), 0U);
  EXPECT_EQ(written("refused a link", 100), 1U);
}

TEST_F(LogLimiterTest, IdsMakeNoKind) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < 5'000; ++i) {
    const std::string id = std::to_string(i);
    count += limiter.admit("request " + id + "ab" + id + " has no receipts", now) ? 1 : 0;
  }
  EXPECT_EQ(count, LogLimiter::kBurst);
}

TEST_F(LogLimiterTest, KindsAreBounded) {
  std::uint32_t count = 0;
  const auto flood = [&](char first) {
    for (char a = 'a'; a <= 'm'; ++a) {
      for (char b = 'a'; b <= 'z'; ++b) count += written(std::string{first, a, b}, 110);
    }
  };
  flood('a');
  EXPECT_LE(count, (LogLimiter::kKinds + 1) * LogLimiter::kBurst);
  now += LogLimiter::kBurst * LogLimiter::kInterval;
  EXPECT_EQ(written("a new kind", 1), 1U) << "the old ones are forgotten";
}

}  // namespace
}  // namespace hearth::cli

#include "proto/link/relay_shares.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

// The bytes that each node moves in `seconds`, in moves of 10 kB as soon as they are allowed.
std::map<std::string, double> moved(RelayShares& shares, const std::vector<std::string>& nodes,
                                    int seconds, TimePoint& now) {
  std::map<std::string, double> bytes;
  const TimePoint end = now + std::chrono::seconds(seconds);
  for (; now < end; now += std::chrono::milliseconds(1)) {
    for (const std::string& node : nodes) {
      while (shares.wait(node, now) == Duration{0}) {
        shares.spend(node, 10'000, now);
        bytes[node] += 10'000;
      }
    }
  }
  return bytes;
}

TEST(RelayShares, OneNodeGetsTheWholeRate) {
  RelayShares shares(1'000'000);
  TimePoint now{std::chrono::seconds(5)};
  EXPECT_NEAR(moved(shares, {"a"}, 10, now)["a"], 10e6, 0.1e6);
}

TEST(RelayShares, ActiveNodesShareEquallyHoweverMuchTheyWant) {
  RelayShares shares(1'000'000);
  TimePoint now{std::chrono::seconds(5)};
  (void)moved(shares, {"a"}, 2, now);  // alone before
  auto bytes = moved(shares, {"a", "b"}, 10, now);
  EXPECT_NEAR(bytes["a"], 5e6, 0.2e6);
  EXPECT_NEAR(bytes["b"], 5e6, 0.2e6);
}

TEST(RelayShares, ANodeThatRestsLeavesItsShare) {
  RelayShares shares(1'000'000);
  TimePoint now{std::chrono::seconds(5)};
  (void)moved(shares, {"a", "b"}, 2, now);
  EXPECT_GT(moved(shares, {"a"}, 10, now)["a"], 9.3e6) << "b moved nothing for ten seconds";
}

TEST(RelayShares, LinksThatOnlyShowThatTheyAreOpenTakeNoShare) {
  RelayShares shares(1'000'000);
  TimePoint now{std::chrono::seconds(5)};
  double busy = 0.0;
  for (int tenth = 0; tenth < 100; ++tenth) {
    for (int i = 0; i < 20; ++i) {
      const std::string node = "quiet" + std::to_string(i);
      EXPECT_EQ(shares.wait(node, now), Duration{0});
      shares.spend(node, 40, now);
    }
    const TimePoint end = now + std::chrono::milliseconds(100);
    for (; now < end; now += std::chrono::milliseconds(1)) {
      while (shares.wait("busy", now) == Duration{0}) {
        shares.spend("busy", 10'000, now);
        busy += 10'000;
      }
    }
  }
  EXPECT_GT(busy, 9.5e6);
}

TEST(RelayShares, ManyLightNodesExceedTheRateByASixteenthAtMost) {
  for (const std::size_t piece : {6U, 120U}) {  // every millisecond: below the limit, and above
    RelayShares shares(1'000'000);
    TimePoint now{std::chrono::seconds(5)};
    double all = 0.0;
    for (int tick = 0; tick < 10'000; ++tick, now += std::chrono::milliseconds(1)) {
      for (int i = 0; i < 10; ++i) {
        const std::string node = "n" + std::to_string(i);
        if (shares.wait(node, now) > Duration{0}) continue;
        const std::size_t bytes = i == 0 ? 10'000 : piece;
        shares.spend(node, bytes, now);
        all += static_cast<double>(bytes);
      }
    }
    EXPECT_LT(all, 10 * 1e6 * (1.0 + 1.0 / 16.0)) << piece;
    EXPECT_GT(all, 10 * 0.9e6) << piece;
  }
}

TEST(RelayShares, ALargeMoveIsWaitedFor) {
  RelayShares shares(1'000'000);
  const TimePoint now{std::chrono::seconds(5)};
  EXPECT_EQ(shares.wait("a", now), Duration{0});
  shares.spend("a", 500'000, now);
  EXPECT_NEAR(std::chrono::duration<double>(shares.wait("a", now)).count(), 0.5, 0.001);
}

TEST(RelayShares, ANodeThatLeavesKeepsItsDebt) {
  RelayShares shares(1'000'000);
  TimePoint now{std::chrono::seconds(5)};
  shares.spend("a", 500'000, now);
  shares.forget("a", now);
  EXPECT_NEAR(std::chrono::duration<double>(shares.wait("a", now)).count(), 0.5, 0.001)
      << "a new link does not begin anew";
  shares.spend("a", 1, now);
  shares.forget("a", now);
  now += std::chrono::seconds(1);
  shares.forget("another", now);
  EXPECT_EQ(shares.size(), 0U);
}

TEST(RelayShares, APieceIsAFewMillisecondsOfAShare) {
  RelayShares shares(10'000'000);
  const TimePoint now{std::chrono::seconds(5)};
  EXPECT_EQ(shares.piece(now), 200'000U);
  shares.spend("a", 1'000'000, now);
  shares.spend("b", 1'000'000, now);
  EXPECT_EQ(shares.piece(now), 100'000U);
  EXPECT_EQ(RelayShares(1'000).piece(now), 16'384U);
}

}  // namespace
}  // namespace hearth

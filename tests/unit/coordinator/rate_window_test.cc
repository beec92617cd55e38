#include "coordinator/rate_window.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

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

// Against a list of all events, over gaps of every length.
TEST(RateWindow, AgreesWithAListOfAllEvents) {
  SeededRandom random(4);
  RateWindow window;
  std::map<std::int64_t, std::uint64_t> events;
  std::int64_t second = 12'345;
  for (int round = 0; round < 3'000; ++round) {
    second += static_cast<std::int64_t>(random.next() % (random.next() % 8 == 0 ? 25 : 3));
    const TimePoint now =
        std::chrono::seconds(second) + std::chrono::milliseconds(random.next() % 1'000);
    const std::uint64_t count = random.next() % 50;
    window.count(now, count);
    events[second] += count;
    std::uint64_t expected = 0;
    for (auto it = events.upper_bound(second - 10); it != events.end(); ++it) {
      expected += it->second;
    }
    ASSERT_DOUBLE_EQ(window.per_second(now), static_cast<double>(expected) / 10.0) << round;
  }
}

}  // namespace
}  // namespace hearth::coordinator

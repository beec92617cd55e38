#include "node/engine/card/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>

namespace hearth::node {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, BarksOnceAtACallThatDoesNotEnd) {
  std::atomic<int> barks{0};
  Watchdog watchdog(milliseconds(40), [&] { ++barks; });
  watchdog.begin();
  for (int i = 0; i < 12'000 && barks == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(barks, 1);
  watchdog.begin();
  std::this_thread::sleep_for(milliseconds(120));
  EXPECT_EQ(barks, 1);
}

TEST(Watchdog, SleepsBetweenCallsAndEndsWithItsOwner) {
  std::atomic<int> barks{0};
  {
    Watchdog never_begun(milliseconds(30), [&] { ++barks; });
    Watchdog ended(milliseconds(500), [&] { ++barks; });
    ended.begin();
    ended.end();
    std::this_thread::sleep_for(milliseconds(1'200));
  }
  Watchdog patient(std::chrono::hours(1), [&] { ++barks; });
  patient.begin();
  EXPECT_EQ(barks, 0);
}

}  // namespace
}  // namespace hearth::node

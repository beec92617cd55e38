#include "node/engine/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>

namespace hearth::node {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, BarksOnceAtACallThatDoesNotEnd) {
  std::atomic<int> barks{0};
  Watchdog watchdog(milliseconds(40), [&] { ++barks; });
  watchdog.begin();
  for (int i = 0; i < 500 && barks == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(barks, 1);
  watchdog.begin();
  std::this_thread::sleep_for(milliseconds(120));
  EXPECT_EQ(barks, 1);
}

TEST(Watchdog, SleepsBetweenCallsAndEndsWithItsOwner) {
  std::atomic<int> barks{0};
  {
    Watchdog watchdog(milliseconds(30), [&] { ++barks; });
    std::this_thread::sleep_for(milliseconds(120));
    watchdog.begin();
    watchdog.end();
    std::this_thread::sleep_for(milliseconds(120));
  }
  Watchdog patient(std::chrono::hours(1), [&] { ++barks; });
  patient.begin();
  EXPECT_EQ(barks, 0);
}

}  // namespace
}  // namespace hearth::node

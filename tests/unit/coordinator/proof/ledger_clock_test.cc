#include "coordinator/proof/ledger_clock.h"

#include <gtest/gtest.h>

namespace hearth::coordinator {
namespace {

constexpr std::int64_t kDay = 24 * 3'600;

struct Wall final : Clock {
  TimePoint now() const override { return std::chrono::seconds(steady); }
  std::int64_t unix_seconds() const override { return unix + steady; }
  std::int64_t steady = 50;
  std::int64_t unix = 1'700'000'000;
};

struct LedgerClockTest : ::testing::Test {
  void later(std::int64_t seconds, bool is_busy = false) {
    wall.steady += seconds;
    clock.follow(is_busy);
  }
  Wall wall;
  LedgerClock clock{wall};
};

TEST_F(LedgerClockTest, IsTheWallClockWhereThatIsRight) {
  EXPECT_EQ(clock.unix_seconds(), wall.unix_seconds());
  for (const std::int64_t moved : {1, -2, 30, -30}) {
    wall.unix += moved;
    later(10);
    EXPECT_EQ(clock.unix_seconds(), wall.unix_seconds()) << moved;
  }
}

TEST_F(LedgerClockTest, GoesOnFromTheLogAsTimePasses) {
  const std::int64_t logged = wall.unix_seconds() + 400 * kDay;
  clock.begin_at(logged);
  EXPECT_EQ(clock.unix_seconds(), logged);
  later(kDay);
  EXPECT_EQ(clock.unix_seconds(), logged + kDay) << "the wall clock is behind it";
  wall.unix += 401 * kDay;
  later(0);
  EXPECT_EQ(clock.unix_seconds(), wall.unix_seconds());
}

TEST_F(LedgerClockTest, DoesNotGoBackWithTheWallClock) {
  wall.unix += 400 * kDay;
  later(1);
  const std::int64_t ahead = clock.unix_seconds();
  wall.unix -= 800 * kDay;
  later(7);
  EXPECT_EQ(clock.unix_seconds(), ahead + 7);
}

TEST_F(LedgerClockTest, LeapsWhenNothingIsUnderWayAndCatchesUpMeanwhile) {
  wall.unix += kDay;
  const std::int64_t before = clock.unix_seconds();
  for (int i = 0; i < 60; ++i) later(1, true);
  EXPECT_EQ(clock.unix_seconds(), before + 60 * (1 + LedgerClock::kBusySeconds));
  later(1, false);
  EXPECT_EQ(clock.unix_seconds(), wall.unix_seconds());
}

TEST_F(LedgerClockTest, NoTimeIsBefore1970) {
  wall.unix = -5'000;
  EXPECT_EQ(LedgerClock(wall).unix_seconds(), 0);
}

}  // namespace
}  // namespace hearth::coordinator

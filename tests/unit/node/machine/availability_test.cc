#include "node/machine/availability.h"

#include <gtest/gtest.h>

#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct AvailabilityTest : ::testing::Test {
  testing::FakeClock clock;
  Triggers triggers;
  std::optional<OwnerOrder> order;
  Signs signs;
  std::unique_ptr<Availability> owner;

  void SetUp() override { begin(); }
  void begin() { owner = std::make_unique<Availability>(triggers); }
  std::optional<Away> judge(Duration later = {}) {
    clock.advance(later);
    signs.unix_seconds = clock.unix_seconds();
    return owner->judge(clock.now(), order, signs);
  }
  std::string why(Duration later = {}) {
    const auto away = judge(later);
    return away ? away->why : "";
  }
};

TEST_F(AvailabilityTest, APauseHoldsUntilItsTimeOrForGood) {
  EXPECT_FALSE(judge());
  order = OwnerOrder{false, clock.unix_seconds() + 60};
  EXPECT_EQ(judge(), (Away{false, order->until, "hearth pause"}));
  EXPECT_TRUE(judge(seconds(59)));
  EXPECT_FALSE(judge(seconds(1))) << "it ends by itself";
  order = OwnerOrder{};
  EXPECT_TRUE(judge(std::chrono::hours(1000)));
  order.reset();
  EXPECT_FALSE(judge());
}

TEST_F(AvailabilityTest, ADrainIsAPauseAfterTenMinutes) {
  order = OwnerOrder{true, 0};
  EXPECT_TRUE(judge()->drain);
  EXPECT_TRUE(judge(kDrainMost - seconds(1))->drain);
  EXPECT_FALSE(judge(seconds(1))->drain);
  order.reset();
  EXPECT_FALSE(judge());
  order = OwnerOrder{true, 0};
  EXPECT_TRUE(judge()->drain) << "another one";
}

TEST_F(AvailabilityTest, AGameHoldsUntilTenSecondsAfterIt) {
  signs.games = 1;
  EXPECT_EQ(why(), "a game runs");
  EXPECT_EQ(why(seconds(100)), "a game runs");
  signs.games = 0;
  EXPECT_EQ(why(milliseconds(9'999)), "a game runs");
  EXPECT_EQ(why(milliseconds(1)), "");
}

TEST_F(AvailabilityTest, OthersMustUseTheCardForAWhile) {
  signs.foreign_memory = triggers.foreign_memory + 1;
  EXPECT_EQ(why(), "");
  EXPECT_EQ(why(milliseconds(2'999)), "");
  signs.foreign_memory = triggers.foreign_memory;
  EXPECT_EQ(why(milliseconds(1)), "") << "not more than they may";
  signs.foreign_memory = triggers.foreign_memory + 1;
  EXPECT_EQ(why(seconds(1)), "");
  EXPECT_EQ(why(seconds(3)), "other programs use the GPU");
  signs.foreign_memory.reset();
  EXPECT_EQ(why(seconds(9)), "other programs use the GPU");
  EXPECT_EQ(why(seconds(1)), "");
}

TEST_F(AvailabilityTest, EachTriggerIsOffByItself) {
  triggers.games = false;
  triggers.foreign_memory = 0;
  begin();
  signs.games = 3;
  signs.foreign_memory = std::uint64_t{1} << 40;
  EXPECT_EQ(why(), "");
  EXPECT_EQ(why(seconds(10)), "");
  signs.on_battery = true;
  EXPECT_EQ(why(), "it runs on battery");
  triggers.battery = false;
  begin();
  EXPECT_EQ(why(), "");
}

TEST_F(AvailabilityTest, OutsideItsHoursItSaysWhenTheyBegin) {
  triggers.hours = Hours{22 * 60, 8 * 60};
  begin();
  for (const std::uint32_t minute : {22U * 60, 23U * 60 + 59, 0U, 8U * 60 - 1}) {
    signs.minute = minute;
    EXPECT_EQ(why(), "") << minute;
  }
  signs.minute = 8 * 60;
  const auto away = judge();
  ASSERT_TRUE(away);
  EXPECT_EQ(away->why, "outside its hours");
  EXPECT_EQ(away->until / 60, signs.unix_seconds / 60 + 14 * 60);
  signs.minute = 21 * 60 + 59;
  EXPECT_EQ(judge()->until / 60, signs.unix_seconds / 60 + 1);
  triggers.hours = Hours{9 * 60, 17 * 60};
  begin();
  signs.minute = 12 * 60;
  EXPECT_FALSE(judge());
  signs.minute = 17 * 60;
  EXPECT_EQ(judge()->until / 60, signs.unix_seconds / 60 + 16 * 60);
}

TEST_F(AvailabilityTest, TheOwnersPauseIsBeforeAGameAndAGameBeforeHisDrain) {
  signs.games = 1;
  order = OwnerOrder{true, 0};
  EXPECT_EQ(judge(), (Away{false, 0, "a game runs"}));
  order = OwnerOrder{false, 0};
  EXPECT_EQ(why(), "hearth pause");
}

TEST(Hours, AreTwoDifferentTimes) {
  EXPECT_EQ(*parse_hours("22:00-08:30"), (Hours{22 * 60, 8 * 60 + 30}));
  EXPECT_EQ(*parse_hours("00:00-24:00"), (Hours{0, 24 * 60}));
  for (const char* bad :
       {"", "-", "22:00", "22:00-", "-08:00", "22:00-22:00", "22:60-08:00", "25:00-08:00",
        "24:01-08:00", "9:00-17:00", "09:00-17:000", "09.00-17.00", "09:00 17:00", "+9:00-17:00",
        "09:00-17:0x", "a9:00-17:00", "09:00-17:00-18:00"}) {
    EXPECT_FALSE(parse_hours(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace hearth::node

#include "node/machine/owner_watch.h"

#include <gtest/gtest.h>

#include <fstream>

#include "node/machine/pause_file.h"
#include "tests/unit/node/machine/pause_folder.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct OwnerWatchTest : ::testing::Test {
  PauseFolder folder;
  testing::FakeClock clock;
  OwnerWatchOptions options;
  std::unique_ptr<OwnerWatch> owner;

  void begin() {
    options.folder = folder.path();
    options.triggers.games = false;
    options.power_supply = folder.path() + "/power";
    owner = std::make_unique<OwnerWatch>(options, clock);
  }
  std::string why(Duration later = {}) {
    clock.advance(later);
    const auto away = owner->look();
    return away ? away->why : "";
  }
  void supply(const std::string& name, const std::string& file, const std::string& text) const {
    const std::filesystem::path path = options.power_supply / name;
    std::filesystem::create_directories(path);
    std::ofstream(path / file) << text << "\n";
  }
};

TEST_F(OwnerWatchTest, ObeysWithinATenthOfASecondAndAfterARestart) {
  begin();
  EXPECT_EQ(why(), "");
  ASSERT_TRUE(write_pause_file(folder.path(), {}).ok());
  EXPECT_EQ(why(milliseconds(100)), "hearth pause");
  begin();
  EXPECT_EQ(why(), "hearth pause") << "another process";
  ASSERT_TRUE(write_pause_file(folder.path(), {true, 0}).ok());
  EXPECT_EQ(why(milliseconds(100)), "hearth drain");
  ASSERT_TRUE(*remove_pause_file(folder.path()));
  EXPECT_EQ(why(milliseconds(100)), "");
  ASSERT_TRUE(write_pause_file(folder.path(), {false, clock.unix_seconds() + 5}).ok());
  EXPECT_EQ(why(milliseconds(100)), "hearth pause");
  EXPECT_EQ(why(seconds(5)), "") << "it ends by itself";
}

TEST_F(OwnerWatchTest, AnOrderThatCannotBeReadIsAPause) {
  begin();
  ASSERT_TRUE(write_pause_file(folder.path(), {}).ok());
  std::ofstream(pause_file(folder.path())) << "{}";
  EXPECT_EQ(why(milliseconds(100)), "hearth pause");
  ASSERT_TRUE(*remove_pause_file(folder.path()));
  EXPECT_EQ(why(milliseconds(100)), "");
}

TEST_F(OwnerWatchTest, AnAdminsOrderHoldsBesideTheOwners) {
  constexpr const char* kAdmin = kAwayByAdmin;
  begin();
  owner->set_admin_order(OwnerOrder{true, 0});
  EXPECT_EQ(why(), kAdmin);
  EXPECT_TRUE(owner->look()->drain);
  EXPECT_FALSE(owner->drains()) << "the process stays, so that the admin can call it back";
  ASSERT_TRUE(write_pause_file(folder.path(), {true, 0}).ok());
  EXPECT_EQ(why(milliseconds(100)), "hearth drain");
  owner->set_admin_order(OwnerOrder{false, 0});
  EXPECT_EQ(why(), kAdmin) << "a pause is sooner than a drain";
  ASSERT_TRUE(write_pause_file(folder.path(), {}).ok());
  EXPECT_EQ(why(milliseconds(100)), "hearth pause");
  owner->set_admin_order(std::nullopt);
  EXPECT_EQ(why(), "hearth pause") << "an admin ends no order of the owner's";
  ASSERT_TRUE(*remove_pause_file(folder.path()));
  EXPECT_EQ(why(milliseconds(100)), "");
  owner->set_admin_order(OwnerOrder{false, clock.unix_seconds() + 5});
  EXPECT_EQ(why(), kAdmin);
  EXPECT_EQ(why(seconds(5)), "") << "it ends by itself";
}

TEST_F(OwnerWatchTest, AnAdminsOrderOutlivesTheProcess) {
  options.admin_file = folder.path() + "/desk.order";
  begin();
  EXPECT_EQ(why(), "");
  owner->set_admin_order(OwnerOrder{true, clock.unix_seconds() + 5});
  begin();
  EXPECT_EQ(why(), kAwayByAdmin) << "another process";
  EXPECT_TRUE(owner->look()->drain);
  EXPECT_EQ(why(seconds(5)), "") << "it ends at the same time";
  owner->set_admin_order(OwnerOrder{false, 0});
  begin();
  EXPECT_EQ(why(), kAwayByAdmin);
  owner->set_admin_order(std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(options.admin_file));
  begin();
  EXPECT_EQ(why(), "");
  std::ofstream(options.admin_file) << "{}";
  begin();
  EXPECT_EQ(why(), kAwayByAdmin) << "a file that cannot be read is a pause";
  owner->set_admin_order(std::nullopt);
  EXPECT_EQ(why(), "");
  EXPECT_FALSE(std::filesystem::exists(options.admin_file));
}

TEST_F(OwnerWatchTest, AnAdminsOrderIsNoDrainOfAnOwnerWhoseDrainIsOver) {
  begin();
  ASSERT_TRUE(write_pause_file(folder.path(), {true, clock.unix_seconds() + 5}).ok());
  EXPECT_EQ(why(milliseconds(100)), "hearth drain");
  EXPECT_TRUE(owner->drains());
  owner->set_admin_order(OwnerOrder{false, 0});
  EXPECT_EQ(why(seconds(5)), kAwayByAdmin);
  EXPECT_FALSE(owner->drains()) << "the file stays until hearth resume";
}

TEST_F(OwnerWatchTest, NoticesTheBatteryAndOthersOnTheCard) {
  std::uint64_t foreign = 0;
  options.card = [&] {
    CardReading reading;
    reading.foreign_memory = foreign;
    return reading;
  };
  begin();
  EXPECT_EQ(why(), "");
  supply("BAT0", "type", "Battery");
  supply("BAT0", "status", "Discharging");
  EXPECT_EQ(why(seconds(1)), "it runs on battery");
  supply("BAT0", "status", "Charging");
  why(seconds(1));
  EXPECT_EQ(why(seconds(10)), "");
  foreign = std::uint64_t{5} << 30;
  why(seconds(1));
  EXPECT_EQ(why(seconds(3)), "other programs use the GPU");
}

}  // namespace
}  // namespace hearth::node

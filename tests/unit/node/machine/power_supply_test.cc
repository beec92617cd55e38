#include "node/machine/power_supply.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace hearth::node {
namespace {

struct PowerSupply : ::testing::Test {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("hearth-power-" + std::to_string(getpid()));
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const std::string& supply, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(folder / supply);
    std::ofstream(folder / supply / file) << text << "\n";
  }
};

TEST_F(PowerSupply, OnBatteryIsWithoutASupplyFromOutside) {
  EXPECT_FALSE(on_battery(folder)) << "no such folder";
  write("AC", "type", "Mains");
  write("AC", "online", "1");
  EXPECT_FALSE(on_battery(folder)) << "a desktop";
  write("BAT0", "type", "Battery");
  write("BAT0", "status", "Discharging");
  EXPECT_FALSE(on_battery(folder)) << "a weak supply is one";
  write("AC", "online", "0");
  EXPECT_TRUE(on_battery(folder));
  write("ucsi-1", "type", "USB");
  write("ucsi-1", "online", "1");
  EXPECT_FALSE(on_battery(folder)) << "it charges over USB";
  write("ucsi-1", "online", "0");
  write("BAT0", "status", "Not charging");
  EXPECT_FALSE(on_battery(folder));
}

TEST_F(PowerSupply, TheBatteryOfAMouseIsNone) {
  write("hid", "type", "Battery");
  write("hid", "scope", "Device");
  write("hid", "status", "Discharging");
  EXPECT_FALSE(on_battery(folder));
}

}  // namespace
}  // namespace hearth::node

#include "node/machine/energy_meter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

struct EnergyMeterTest : ::testing::Test {
  testing::FakeClock clock;
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("hearth-energy-" + std::to_string(getpid()));
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const std::string& package, const std::string& file, std::uint64_t value) const {
    std::filesystem::create_directories(folder / package);
    std::ofstream(folder / package / file) << value << "\n";
  }
  void add(const std::string& package, const std::string& name, std::uint64_t microjoules) const {
    write(package, "energy_uj", microjoules);
    write(package, "max_energy_range_uj", 1'000'000'000);
    std::ofstream(folder / package / "name") << name << "\n";
  }
};

TEST_F(EnergyMeterTest, PackagesAreAddedAndTheirPartsAreNot) {
  EXPECT_EQ(EnergyMeter(clock, folder).joules(), std::nullopt) << "no such folder";
  add("intel-rapl:0", "package-0", 500'000'000);
  add("intel-rapl:1", "package-1", 0);
  add("intel-rapl:0:0", "core", 0);
  EnergyMeter meter(clock, folder);
  EXPECT_EQ(meter.joules(), 0.0);
  write("intel-rapl:0", "energy_uj", 530'000'000);
  write("intel-rapl:1", "energy_uj", 4'500'000);
  write("intel-rapl:0:0", "energy_uj", 20'000'000);
  EXPECT_EQ(meter.joules(), 0.0) << "less than a second has passed";
  clock.advance(std::chrono::seconds(1));
  EXPECT_DOUBLE_EQ(*meter.joules(), 34.5);
}

TEST_F(EnergyMeterTest, ACounterBeginsAnewAfterItsLargestValue) {
  add("intel-rapl:0", "package-0", 999'000'000);
  EnergyMeter meter(clock, folder);
  write("intel-rapl:0", "energy_uj", 2'000'000);
  clock.advance(std::chrono::seconds(1));
  EXPECT_DOUBLE_EQ(*meter.joules(), 3.0);
  std::filesystem::remove_all(folder);
  clock.advance(std::chrono::seconds(1));
  EXPECT_DOUBLE_EQ(*meter.joules(), 3.0) << "what cannot be read any more adds nothing";
}

TEST_F(EnergyMeterTest, ACardsWattsOverTheTime) {
  std::optional<double> watts;
  EnergyMeter meter(clock, [&] { return watts; });
  clock.advance(std::chrono::seconds(2));
  EXPECT_EQ(meter.joules(), std::nullopt);
  watts = 300.0;
  clock.advance(std::chrono::seconds(2));
  EXPECT_DOUBLE_EQ(*meter.joules(), 600.0);
  clock.advance(std::chrono::hours(8));
  EXPECT_DOUBLE_EQ(*meter.joules(), 3600.0) << "the machine slept";
  for (const double wrong : {-5.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    watts = wrong;
    clock.advance(std::chrono::seconds(2));
    EXPECT_DOUBLE_EQ(*meter.joules(), 3600.0);
  }
}

}  // namespace
}  // namespace hearth::node

#include "node/machine/card_sensors.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace hearth::node {
namespace {

constexpr const char* kBus = "0000:01:00.0";

TEST(CardSensors, ReadsWhatTheLibrarySays) {
  const auto sensors = CardSensors::open(kBus, HEARTH_FAKE_NVML_LIBRARY);
  ASSERT_TRUE(sensors.ok()) << sensors.error().message;
  EXPECT_EQ(text_of((*sensors)->read()),
            "61 C, 310 W, 97 % busy, 20.1 GB used, 1.2 GB of it by others");
}

TEST(CardSensors, LeavesOutWhatACardDoesNotTell) {
  setenv("HEARTH_FAKE_NVML", "quiet", 1);
  const auto sensors = CardSensors::open(kBus, HEARTH_FAKE_NVML_LIBRARY);
  ASSERT_TRUE(sensors.ok());
  EXPECT_EQ(text_of((*sensors)->read()), "");
  unsetenv("HEARTH_FAKE_NVML");
}

TEST(CardSensors, DoesNotTakeItsOwnMemoryForThatOfOthersInAContainer) {
  setenv("HEARTH_FAKE_NVML", "container", 1);
  const auto sensors = CardSensors::open(kBus, HEARTH_FAKE_NVML_LIBRARY);
  ASSERT_TRUE(sensors.ok());
  EXPECT_EQ(text_of((*sensors)->read()), "61 C, 310 W, 97 % busy, 20.1 GB used");
  unsetenv("HEARTH_FAKE_NVML");
}

struct Counting final : CardSensors {
  CardReading read() const override {
    CardReading reading;
    reading.celsius = ++reads;
    return reading;
  }
  mutable std::uint32_t reads = 0;
};

TEST(CardWatch, ReadsAgainAndAgain) {
  const CardWatch watch(std::make_unique<Counting>(), std::chrono::milliseconds(1));
  for (int i = 0; i < 5'000 && watch.latest().celsius < 3U; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(watch.latest().celsius, 3U);
}

TEST(CardSensors, SaysWhyThereAreNone) {
  const auto elsewhere = CardSensors::open("0000:02:00.0", HEARTH_FAKE_NVML_LIBRARY);
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(elsewhere.error().message.find("0000:02:00.0"), std::string::npos);
  const auto absent = CardSensors::open(kBus, "libthere-is-none.so.7");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kUnavailable);
  const auto other = CardSensors::open(kBus, "libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("nvmlInit_v2"), std::string::npos);
}

}  // namespace
}  // namespace hearth::node

#include "base/number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace hearth {
namespace {

TEST(ParseNumber, ReadsWholeTexts) {
  EXPECT_EQ(parse_number<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(parse_number<std::int64_t>("-7"), -7);
  EXPECT_EQ(parse_number<std::uint32_t>("007"), 7U);
  EXPECT_EQ(parse_number<std::uint32_t>("fF", 16), 255U);
  EXPECT_EQ(parse_number<double>("2.5e3"), 2500.0);
}

TEST(ParseNumber, RefusesWhatIsNotAllOfTheText) {
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x", "-", "0x10", "1.5"}) {
    EXPECT_EQ(parse_number<std::int32_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<double>("1e"), std::nullopt);
  EXPECT_EQ(parse_number<double>(""), std::nullopt);
}

TEST(ParseNumber, RefusesWhatTheTypeDoesNotHold) {
  EXPECT_EQ(parse_number<std::uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint32_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1e999"), std::nullopt);
}

}  // namespace
}  // namespace hearth

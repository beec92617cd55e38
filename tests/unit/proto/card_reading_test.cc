#include "proto/card_reading.h"

#include <gtest/gtest.h>

#include <limits>

#include "proto/control.pb.h"

namespace hearth {
namespace {

TEST(CardReading, TravelsAsItIs) {
  CardReading reading;
  for (int filled = 0; filled < 2; ++filled) {
    control::v1::CardReading message;
    write_card(reading, message);
    EXPECT_EQ(read_card(message), reading);
    reading = {61, 310.5, 97, 20'100'000'000, 1'200'000'000};
  }
  EXPECT_EQ(text_of(reading), "61 C, 310 W, 97 % busy, 20.1 GB used, 1.2 GB of it by others");
  EXPECT_EQ(text_of({}), "");
}

TEST(CardReading, WattsAreANumber) {
  control::v1::CardReading message;
  for (const double watts : {-1.0, 1e9, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    message.set_watts(watts);
    EXPECT_FALSE(read_card(message).watts) << watts;
  }
}

}  // namespace
}  // namespace hearth

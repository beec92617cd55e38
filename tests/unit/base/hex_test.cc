#include "base/hex.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Hex, RoundTrips) {
  Bytes all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(from_hex(to_hex(all)), all);
  EXPECT_EQ(to_hex(as_bytes("fo\xff")), "666fff");
  EXPECT_EQ(to_hex(from_hex("00ff7f").value()), "00ff7f");
  EXPECT_EQ(from_hex(""), Bytes());
}

TEST(Hex, HasOneSpelling) {
  for (const char* bad : {"0", "0g", "AB", " 0", "0x", "00 ", "\xff\xff"}) {
    EXPECT_FALSE(from_hex(bad)) << bad;
  }
}

}  // namespace
}  // namespace hearth

#include "proto/link/ping.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace hearth {
namespace {

TEST(Ping, SaysHowLongItsAnswerShallBe) {
  const auto read = decode_ping(encode(Ping{1000, 77}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->answer_bytes, 1000u);
  EXPECT_EQ(read->filling, 77u);
  EXPECT_EQ(encode(Ping{}).size(), 4u);
}

TEST(Ping, NeitherItNorItsAnswerIsLongerThanTheLimit) {
  constexpr std::uint32_t kLimit = limits::kPingBytes;
  EXPECT_TRUE(decode_ping(encode(Ping{kLimit, kLimit - 4})));
  EXPECT_FALSE(decode_ping(encode(Ping{kLimit + 1, 0})));
  EXPECT_FALSE(decode_ping(encode(Ping{0xFFFFFFFF, 0})));
  EXPECT_FALSE(decode_ping(encode(Ping{0, kLimit - 3})));
  EXPECT_FALSE(decode_ping(Bytes(3)));
  EXPECT_FALSE(decode_ping({}));
}

}  // namespace
}  // namespace hearth

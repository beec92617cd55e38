#include "proto/link/handshakes.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart = std::chrono::hours(1);

TEST(Handshakes, OneAddressHasItsShare) {
  Handshakes limits({.under_way = 10, .of_address = 3, .burst = 100, .per_second = 1});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limits.begin("a", kStart));
  EXPECT_FALSE(limits.begin("a", kStart));
  EXPECT_TRUE(limits.begin("b", kStart));
  limits.end("a");
  EXPECT_TRUE(limits.begin("a", kStart));
}

TEST(Handshakes, AreLimitedInAll) {
  Handshakes limits({.under_way = 4, .of_address = 3, .burst = 100, .per_second = 1});
  for (const char* address : {"a", "b", "c", "d"}) EXPECT_TRUE(limits.begin(address, kStart));
  EXPECT_FALSE(limits.begin("e", kStart));
  limits.end("b");
  EXPECT_TRUE(limits.begin("e", kStart));
  EXPECT_EQ(limits.under_way(), 4u);
}

TEST(Handshakes, SayWhoWaitsForNothingButRoom) {
  Handshakes limits({.under_way = 3, .of_address = 2, .burst = 2, .per_second = 1});
  EXPECT_FALSE(limits.waits_for_room("a", kStart)) << "there is room";
  for (const char* address : {"a", "a", "b"}) EXPECT_TRUE(limits.begin(address, kStart));
  EXPECT_FALSE(limits.waits_for_room("a", kStart)) << "it has its share";
  EXPECT_TRUE(limits.waits_for_room("b", kStart));
  EXPECT_TRUE(limits.waits_for_room("c", kStart));
  limits.end("a");
  limits.end("a");
  EXPECT_FALSE(limits.waits_for_room("c", kStart));
  EXPECT_EQ(limits.under_way("a"), 0u);
  EXPECT_EQ(limits.under_way("b"), 1u);
  EXPECT_EQ(limits.under_way("stranger"), 0u);
  for (const char* address : {"b", "c"}) EXPECT_TRUE(limits.begin(address, kStart));
  EXPECT_FALSE(limits.waits_for_room("a", kStart)) << "its rate is spent";
}

TEST(Handshakes, OfOneAddressHaveARate) {
  Handshakes limits({.under_way = 10, .of_address = 3, .burst = 5, .per_second = 2});
  const auto once = [&](TimePoint now) {
    if (!limits.begin("a", now)) return false;
    limits.end("a");
    return true;
  };
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(once(kStart)) << i;
  EXPECT_FALSE(once(kStart));
  EXPECT_FALSE(once(kStart + milliseconds(400)));
  EXPECT_TRUE(once(kStart + milliseconds(600)));
  EXPECT_FALSE(once(kStart + milliseconds(600)));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(once(kStart + seconds(60))) << i;
  EXPECT_FALSE(once(kStart + seconds(60))) << "no more than the burst is saved";
}

TEST(Handshakes, RememberABoundedNumberOfAddresses) {
  Handshakes limits(
      {.under_way = 10, .of_address = 3, .burst = 5, .per_second = 1, .addresses = 4});
  for (int i = 0; i < 1000; ++i) {
    const std::string address = std::to_string(i);
    if (limits.begin(address, kStart)) limits.end(address);
    EXPECT_LE(limits.remembered(), 4u);
  }
  EXPECT_FALSE(limits.begin("new", kStart)) << "the four have used some of their burst";
  EXPECT_TRUE(limits.begin("new", kStart + seconds(2))) << "by now they are as new";
  EXPECT_TRUE(limits.begin("other", kStart + seconds(2)));
}

}  // namespace
}  // namespace hearth

#include "coordinator/http/wire/body_room.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace hearth::coordinator::http {
namespace {

TEST(BodyRoomTest, CountsWhatARequestTakesNow) {
  BodyBytes bodies;
  {
    BodyRoom one;
    EXPECT_TRUE(one.hold(bodies, "a", 0)) << "a body that has not begun to come";
    EXPECT_TRUE(one.hold(bodies, "a", 100));
    EXPECT_TRUE(one.hold(bodies, "a", 70)) << "an answer in place of the body";
    BodyRoom two;
    EXPECT_TRUE(two.hold(bodies, "a", 5));
    EXPECT_EQ(bodies.all, 75U);
    EXPECT_EQ(bodies.of.at("a"), 75U);
    one.release();
    EXPECT_EQ(bodies.all, 5U);
  }
  EXPECT_EQ(bodies.all, 0U);
  EXPECT_TRUE(bodies.of.empty());
}

TEST(BodyRoomTest, RequestsOfOneClientThatTakeNothingYetEndInAnyOrder) {
  BodyBytes bodies;
  BodyRoom one;
  BodyRoom two;
  EXPECT_TRUE(one.hold(bodies, "a", 0));
  EXPECT_TRUE(two.hold(bodies, "a", 0));
  one.release();
  EXPECT_TRUE(two.hold(bodies, "a", 5));
  two.release();
  EXPECT_TRUE(bodies.of.empty());
}

// However many greedy clients there are, the next one finds room, and memory has its limit.
TEST(BodyRoomTest, EachClientLeavesRoomForTheNext) {
  BodyBytes bodies;
  std::vector<std::unique_ptr<BodyRoom>> rooms;
  for (const char* client : {"a", "b", "c", "d"}) {
    std::size_t taken = 0;
    while (true) {
      auto room = std::make_unique<BodyRoom>();
      if (!room->hold(bodies, client, 64 * limits::kKiB)) break;
      rooms.push_back(std::move(room));
      ++taken;
    }
    EXPECT_GT(taken, 20U) << client;
    EXPECT_LT(bodies.all, limits::kHttpBodiesBytes) << client;
  }
  BodyRoom last;
  EXPECT_TRUE(last.hold(bodies, "e", 64 * limits::kKiB));
  EXPECT_FALSE(rooms.front()->hold(bodies, "a", 128 * limits::kKiB)) << "it has its part";
  EXPECT_TRUE(rooms.front()->hold(bodies, "a", 32 * limits::kKiB)) << "less is always possible";
  BodyRoom huge;
  EXPECT_FALSE(huge.hold(bodies, "f", 2 * limits::kHttpBodiesBytes));
}

}  // namespace
}  // namespace hearth::coordinator::http

#include "placement/parts.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "base/random.h"

namespace hearth::placement {
namespace {

constexpr std::uint64_t kRoom = 1'000'000;
using Parts = std::vector<std::uint32_t>;

std::uint32_t sum(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0U); }

TEST(PartsTest, FollowSpeeds) {
  EXPECT_EQ(divide_parts({{3.0, kRoom}, {1.0, kRoom}}, 1000), (Parts{192, 64}));
  EXPECT_EQ(divide_parts({{1.0, kRoom}, {2.0, kRoom}, {5.0, kRoom}}, 1000), (Parts{32, 64, 160}));
}

TEST(PartsTest, SpeedsThatDifferLittleAreEqual) {
  EXPECT_EQ(divide_parts({{1.0, kRoom}, {1.1, kRoom}}, 1000), (Parts{128, 128}));
  EXPECT_EQ(divide_parts({{1.0, kRoom}, {1.0, kRoom}, {1.0, kRoom}}, 0), (Parts{85, 86, 85}));
}

TEST(PartsTest, WhatHasNoRoomGoesToTheOthers) {
  // The quicker one holds a quarter of the stage.
  EXPECT_EQ(divide_parts({{9.0, 250}, {1.0, 1000}}, 1000), (Parts{64, 192}));
  EXPECT_EQ(divide_parts({{9.0, 250}, {1.0, 1000}, {1.0, 1000}}, 1000), (Parts{64, 96, 96}));
  // Then the second is full as well.
  EXPECT_EQ(divide_parts({{9.0, 250}, {5.0, 500}, {1.0, 1000}}, 1000), (Parts{64, 128, 64}));
}

TEST(PartsTest, AStageThatFitsNoGroupHasNoParts) {
  EXPECT_TRUE(divide_parts({{1.0, 400}, {1.0, 400}}, 1000).empty());
  EXPECT_TRUE(divide_parts({{0.0, kRoom}, {0.0, kRoom}}, 1000).empty());
  EXPECT_TRUE(
      divide_parts({{std::numeric_limits<double>::infinity(), kRoom}, {1.0, kRoom}}, 1000).empty());
}

TEST(PartsTest, AreAlwaysTheWholeAndNeverMoreThanFits) {
  SeededRandom random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<RankFigures> ranks(2 + random.next() % 7);
    std::uint64_t memory = 0;
    for (RankFigures& rank : ranks) {
      rank = {static_cast<double>(1 + random.next() % 100), random.next() % 1000};
      memory += rank.memory_bytes;
    }
    const std::uint64_t bytes = 1 + random.next() % 2000;
    const Parts parts = divide_parts(ranks, bytes);
    if (parts.empty()) {
      // Each rank loses less than one part by rounding.
      EXPECT_LT(memory, bytes + ranks.size() * bytes / kParts + ranks.size());
      continue;
    }
    EXPECT_EQ(sum(parts), kParts);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const double share = static_cast<double>(bytes) * parts[i] / kParts;
      const double slack = static_cast<double>(bytes) / kParts;
      EXPECT_LE(share, static_cast<double>(ranks[i].memory_bytes) + slack);
    }
  }
}

}  // namespace
}  // namespace hearth::placement

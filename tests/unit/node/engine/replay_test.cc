#include "node/engine/replay.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/canonical.h"

namespace hearth::node {
namespace {

constexpr std::size_t kRow = 8;
constexpr std::uint64_t kPage = kernels::kPageTokens * (sizeof(Hash256) + kRow);

Hash256 hash_of(int value) {
  Hash256 hash;
  hash.bytes[0] = static_cast<std::byte>(value);
  return hash;
}

TEST(Replay, KnowsARowByWhatCameIn) {
  Replay replay(4, kRow, 4 * kPage);
  const BlockTable table{2, 0};
  const Position at = kernels::kPageTokens + 3;
  const Bytes out(kRow, std::byte{7});
  replay.put_input(table, at, hash_of(1));
  replay.put_output(table, at, out);
  EXPECT_TRUE(replay.came_in(table, at, hash_of(1)));
  EXPECT_FALSE(replay.came_in(table, at, hash_of(2)));
  EXPECT_TRUE(std::ranges::equal(replay.output(table, at), out));
  EXPECT_TRUE(replay.came_in({0}, 3, hash_of(1)))
      << "the replay belongs to the page, for every owner";
}

TEST(Replay, PagesWithoutRoomAreNotKnown) {
  Replay replay(4, kRow, 2 * kPage + 1);
  EXPECT_FALSE(replay.empty());
  const BlockTable table{1, 2};
  for (const Position at : {Position{0}, Position{kernels::kPageTokens}}) {
    replay.put_input(table, at, hash_of(1));
    replay.put_output(table, at, Bytes(kRow));
  }
  EXPECT_TRUE(replay.came_in(table, 0, hash_of(1)));
  EXPECT_FALSE(replay.came_in(table, kernels::kPageTokens, hash_of(1)));
  EXPECT_TRUE(Replay(4, kRow, kPage - 1).empty());
}

TEST(Replay, ATableThatWasGivenBackTakesNothing) {
  Replay replay(1, kRow, kPage);
  replay.put_output({}, 0, Bytes(kRow));
  EXPECT_FALSE(replay.came_in({}, 0, hash_of(0)));
}

TEST(Replay, GivesBackTheOldestFirst) {
  Replay replay(8, kRow, 8 * kPage);
  replay.keep({SequenceId(1), 20, {0, 1}});
  replay.keep({SequenceId(2), 5, {2}});
  replay.keep({SequenceId(3), 40, {3, 4, 5}});
  EXPECT_EQ(replay.kept_pages(), 6U);
  const auto second = replay.take(SequenceId(2));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->length, 5U);
  EXPECT_EQ(second->pages, BlockTable{2});
  EXPECT_FALSE(replay.take(SequenceId(2)));
  EXPECT_EQ(replay.kept_pages(), 5U);
  EXPECT_EQ(replay.take_oldest()->sequence, SequenceId(1));
  EXPECT_EQ(replay.take_oldest()->sequence, SequenceId(3));
  EXPECT_FALSE(replay.take_oldest());
  EXPECT_EQ(replay.kept_pages(), 0U);
}

}  // namespace
}  // namespace hearth::node

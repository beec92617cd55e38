#include "coordinator/http/wire/send_watch.h"

#include <gtest/gtest.h>

namespace hearth::coordinator::http {
namespace {

using namespace std::chrono_literals;
using State = SendWatch::State;

struct SendWatchTest : ::testing::Test {
  SendWatch watch{30s};
  TimePoint now{};
  State look(std::uint64_t acknowledged, std::uint64_t waiting, Duration later = 75ms,
             Duration round_trip = 1ms) {
    now += later;
    return watch.look({acknowledged, waiting, round_trip}, now);
  }
};

TEST_F(SendWatchTest, SilenceIsAReaderWhileNothingWaits) {
  EXPECT_EQ(look(100, 0), State::kReads);
  EXPECT_EQ(look(100, 0, 1h), State::kReads);
  EXPECT_EQ(look(100, 50, 1h), State::kReads) << "these bytes have only now been seen to wait";
}

TEST_F(SendWatchTest, WithoutAByteTakenItStalls) {
  EXPECT_EQ(look(0, 10), State::kReads);
  EXPECT_EQ(look(0, 10, 550ms), State::kReads);
  EXPECT_EQ(look(0, 20, 100ms), State::kStalled);
  EXPECT_EQ(look(5, 15), State::kStalled) << "until it has everything";
  EXPECT_EQ(look(20, 0), State::kReads);
  EXPECT_EQ(look(20, 5, 100ms), State::kReads) << "and then it begins anew";
  EXPECT_EQ(look(20, 5, 550ms), State::kReads);
}

TEST_F(SendWatchTest, BytesTakenNowAndThenAreEnough) {
  std::uint64_t taken = 0;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(look(++taken, 100, 550ms), State::kReads);
}

TEST_F(SendWatchTest, AFarClientHasTwiceItsWayMore) {
  EXPECT_EQ(look(0, 10, 0ms, 600ms), State::kReads);
  EXPECT_EQ(look(0, 10, 1700ms, 600ms), State::kReads);
  EXPECT_EQ(look(0, 10, 100ms, 600ms), State::kStalled);
}

TEST_F(SendWatchTest, WhoStaysBehindStallsThoughItReads) {
  const std::uint64_t much = SendWatch::kBehind + 1;
  EXPECT_EQ(look(1, much), State::kReads);
  EXPECT_EQ(look(2, much, 550ms), State::kReads);
  EXPECT_EQ(look(3, 10), State::kReads) << "it has caught up";
  EXPECT_EQ(look(4, much), State::kReads);
  EXPECT_EQ(look(5, much, 550ms), State::kReads);
  EXPECT_EQ(look(6, much, 100ms), State::kStalled);
  EXPECT_EQ(look(7, 0), State::kReads);
  EXPECT_EQ(look(8, SendWatch::kFar + 1), State::kStalled) << "at once";
}

TEST_F(SendWatchTest, NobodyWaitsForEver) {
  EXPECT_EQ(look(0, 10), State::kReads);
  EXPECT_EQ(look(0, 10, 29s), State::kStalled);
  EXPECT_EQ(look(1, 9, 2s), State::kStalled) << "a byte was taken";
  EXPECT_EQ(look(1, 9, 30s), State::kGone);
}

}  // namespace
}  // namespace hearth::coordinator::http

#include "node/pipeline/link_probe.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

struct LinkProbeTest : ::testing::Test {
  testing::FakeClock clock;
  testing::FakeTransport transport;
  LinkProbe probe{transport, clock};
  std::optional<Result<LinkRate>> result;
  LinkId link;

  void start(const std::string& name = "den") {
    probe.start(name, "den:1", [this](Result<LinkRate> rate) { result = std::move(rate); });
    ASSERT_FALSE(result);
    link = transport.dialled.back().first;
    transport.peers[link] = RosterEntry{{}, "den", Role::kWorker, {}};
  }
  // Everything that waits is answered after so long.
  void answer(Duration after) {
    clock.advance(after);
    std::vector<Frame> pings;
    pings.swap(transport.sent[link]);
    ASSERT_FALSE(pings.empty());
    for (const Frame& frame : pings) {
      ASSERT_EQ(frame.type, FrameType::kPing);
      const auto ping = decode_ping(frame.payload);
      ASSERT_TRUE(ping.ok());
      transport.receive(link, FrameType::kPong, Bytes(ping->answer_bytes));
    }
  }
};

TEST_F(LinkProbeTest, MeasuresRoundTripAndBothWays) {
  start();
  transport.open("den:1");
  for (int i = 0; i < 8; ++i) answer(std::chrono::microseconds(i == 3 ? 500 : 900));
  for (int way = 1; way <= 2; ++way) {
    for (int size = 0; size < 5; ++size) answer(std::chrono::milliseconds(1));
    answer(way * std::chrono::milliseconds(80) + std::chrono::microseconds(500));  // 8 MiB
  }
  ASSERT_TRUE(result && result->ok());
  EXPECT_NEAR((*result)->round_trip_seconds, 500e-6, 1e-9);
  const double bytes = 8.0 * (limits::kPingBytes - 64);
  EXPECT_NEAR((*result)->to_bytes_per_second, bytes / 0.08, 1.0);
  EXPECT_NEAR((*result)->from_bytes_per_second, bytes / 0.16, 1.0);
  EXPECT_TRUE(transport.closed.contains(link));
}

TEST_F(LinkProbeTest, ASlowWayGetsNoBulk) {
  start();
  transport.open("den:1");
  for (int i = 0; i < 8; ++i) answer(std::chrono::milliseconds(10));
  answer(std::chrono::milliseconds(70));  // with a burst
  answer(std::chrono::milliseconds(110));
  answer(std::chrono::milliseconds(70));
  answer(std::chrono::milliseconds(210));
  ASSERT_TRUE(result && result->ok());
  EXPECT_NEAR((*result)->to_bytes_per_second, 65'536 / 0.1, 1.0);
  EXPECT_NEAR((*result)->from_bytes_per_second, 65'536 / 0.2, 1.0);
}

TEST_F(LinkProbeTest, WhoDoesNotAnswerEndsIt) {
  start();
  clock.advance(std::chrono::seconds(8));
  probe.on_timer();
  ASSERT_TRUE(result && !result->ok());
  EXPECT_EQ(result->error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(transport.closed.contains(link));
  result.reset();
  start();
  transport.open("den:1");
  transport.lose(link);
  ASSERT_TRUE(result && !result->ok());
}

TEST_F(LinkProbeTest, AnotherNodesKeyIsNoAnswer) {
  start("attic");
  transport.open("den:1");
  ASSERT_TRUE(result && !result->ok());
  EXPECT_EQ(result->error().code, ErrorCode::kUnavailable) << "the route leads to another node";
  EXPECT_TRUE(transport.sent[link].empty()) << "nothing is sent to a stranger";
}

TEST_F(LinkProbeTest, AnAnswerOfAnotherSizeEndsIt) {
  start();
  transport.open("den:1");
  transport.receive(link, FrameType::kPong, Bytes(limits::kPingBytes));
  ASSERT_TRUE(result && !result->ok());
  EXPECT_EQ(result->error().code, ErrorCode::kInvalidInput);
  EXPECT_TRUE(transport.closed.contains(link));
}

TEST_F(LinkProbeTest, AnswersToNothingAreNothing) {
  transport.incoming();
  start();
  transport.receive(link, FrameType::kPong, {});
  transport.open("den:1");
  transport.receive(link, FrameType::kBatch, {});
  for (int i = 0; i < 8; ++i) answer(std::chrono::milliseconds(30));
  EXPECT_FALSE(result);
  probe.start("den", "den:1", nullptr);
  ASSERT_TRUE(result && !result->ok()) << "the one before hears that it is over";
}

}  // namespace
}  // namespace hearth::node

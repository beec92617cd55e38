#include "coordinator/pipelines/pipeline_links.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct LinkRecorder final : PipelineLinkEvents {
  void on_pipeline_linked(Epoch epoch) override {
    log += "linked" + std::to_string(epoch.value) + " ";
  }
  void on_pipeline_frame(Epoch epoch, Frame frame) override {
    log += "frame" + std::to_string(epoch.value) + ":" + std::to_string(frame.payload.size()) + " ";
  }
  void on_pipeline_link_lost(Epoch epoch, std::uint32_t stage, const std::string& why,
                             bool unreached) override {
    never_opened = unreached;
    log += "lost" + std::to_string(epoch.value) + "@" + std::to_string(stage) + " ";
    reason = why;
    if (links != nullptr) links->close(epoch);
  }
  std::string log;
  std::string reason;
  bool never_opened = false;  // the link that was lost
  PipelineLinks* links = nullptr;
};

struct PipelineLinksTest : ::testing::Test {
  testing::FakeClock clock;
  testing::FakeTransport transport;
  LinkRecorder events;
  PipelineLinks links{Hello{kProtocolVersion, 1, Epoch(), 0, "home"}, clock, transport, events};

  void SetUp() override {
    transport.set_events(&links);
    events.links = &links;
  }
  static Bytes hello(std::uint64_t epoch, std::uint32_t stage, const std::string& node,
                     std::uint32_t canonical = 1) {
    return encode(Hello{kProtocolVersion, canonical, Epoch(epoch), stage, node});
  }
  LinkId greet_first(std::uint64_t epoch) {
    const LinkId link = transport.open("a" + std::to_string(epoch));
    transport.receive(link, FrameType::kHello, hello(epoch, 0, "a"));
    return link;
  }
  LinkId greet_last(std::uint64_t epoch, const std::string& node = "z") {
    const LinkId link = transport.incoming();
    transport.receive(link, FrameType::kHello, hello(epoch, 2, node));
    return link;
  }
  void open(std::uint64_t epoch) {
    links.open(Epoch(epoch), 3, "a" + std::to_string(epoch), "a", "z");
  }
};

TEST_F(PipelineLinksTest, BothEndsAreWhoTheirKeysSay) {
  open(1);
  const LinkId forged = transport.incoming();
  transport.peers[forged] = RosterEntry{{}, "mallory", Role::kWorker, {}};
  transport.receive(forged, FrameType::kHello, hello(1, 2, "z"));
  ASSERT_EQ(transport.sent[forged].size(), 1U);
  EXPECT_EQ(decode_refused(transport.sent[forged][0].payload), "this node is not admitted here");
  greet_last(1);
  const LinkId first = transport.open("a1");
  transport.peers[first] = RosterEntry{{}, "mallory", Role::kWorker, {}};
  transport.receive(first, FrameType::kHello, hello(1, 0, "a"));
  EXPECT_EQ(events.log, "lost1@0 ");
  EXPECT_NE(events.reason.find("worker mallory speaks as a"), std::string::npos) << events.reason;
  open(2);
  const LinkId other = transport.open("a2");
  transport.receive(other, FrameType::kHello, hello(2, 0, "b"));
  EXPECT_NE(events.reason.find("b answers in place of"), std::string::npos);
}

TEST_F(PipelineLinksTest, LinkedOnceWhicheverEndComesFirst) {
  open(1);
  open(2);
  greet_first(1);
  EXPECT_FALSE(links.linked(Epoch(1)));
  const LinkId last = greet_last(1);
  EXPECT_TRUE(links.linked(Epoch(1)));
  greet_last(2);
  EXPECT_FALSE(links.linked(Epoch(2)));
  const LinkId first = greet_first(2);
  EXPECT_EQ(events.log, "linked1 linked2 ");
  transport.receive(last, FrameType::kTokens, Bytes(5));
  EXPECT_EQ(events.log, "linked1 linked2 frame1:5 ");
  const auto ours = decode_hello(transport.sent[first].front().payload);
  ASSERT_TRUE(ours.ok());
  EXPECT_EQ(ours->epoch, Epoch(2));
  EXPECT_EQ(ours->stage, Hello::kCoordinatorStage);
  EXPECT_EQ(ours->node, "home");
}

TEST_F(PipelineLinksTest, FramesWaitForTheHandshakeAndKeepTheirOrder) {
  open(1);
  for (std::size_t size = 1; size <= 3; ++size) {
    links.send(Epoch(1), {FrameType::kSubmit, Bytes(size)});
  }
  const LinkId first = greet_first(1);
  ASSERT_EQ(transport.sent[first].size(), 4u) << "our hello, then the three";
  transport.full.insert(first);
  for (std::size_t size = 4; size <= 6; ++size) {
    links.send(Epoch(1), {FrameType::kSubmit, Bytes(size)});
  }
  EXPECT_EQ(transport.sent[first].size(), 4u);
  transport.full.clear();
  links.send(Epoch(1), {FrameType::kCancel, Bytes(7)});
  ASSERT_EQ(transport.sent[first].size(), 8u) << "the newer one may not pass the older ones";
  for (std::size_t i = 1; i < 8; ++i) EXPECT_EQ(transport.sent[first][i].payload.size(), i);
  links.send(Epoch(9), {FrameType::kSubmit, Bytes(1)});  // of no pipeline: dropped
  EXPECT_EQ(transport.sent.size(), 1u);
}

TEST_F(PipelineLinksTest, AFirstStageThatIsLateIsDialledAgain) {
  open(1);
  ASSERT_EQ(transport.dialled.size(), 1u);
  transport.lose(transport.dialled[0].first);
  links.on_timer();
  EXPECT_EQ(transport.dialled.size(), 1u) << "not in a tight loop";
  clock.advance(milliseconds(200));
  links.on_timer();
  EXPECT_EQ(transport.dialled.size(), 2u);
  transport.open("a1");  // connected, and then silent
  clock.advance(seconds(2));
  links.on_timer();
  EXPECT_TRUE(transport.closed.contains(transport.dialled[1].first));
  clock.advance(milliseconds(200));
  links.on_timer();
  ASSERT_EQ(transport.dialled.size(), 3u);
  greet_first(1);
  greet_last(1);
  EXPECT_EQ(events.log, "linked1 ") << "being late is no loss";
  clock.advance(seconds(60));
  links.on_timer();
  EXPECT_EQ(transport.dialled.size(), 3u) << "an open link is not dialled again";
}

TEST_F(PipelineLinksTest, AFirstStageThatNobodyReachesIsGivenUp) {
  open(1);
  for (int passed = 0; passed < 4'800; passed += 300) {
    transport.lose(transport.dialled.back().first);
    EXPECT_EQ(events.log, "") << passed;
    clock.advance(milliseconds(300));
    links.on_timer();
  }
  clock.advance(milliseconds(300));
  transport.lose(transport.dialled.back().first, "no route to host");
  EXPECT_NE(events.log.find("lost"), std::string::npos) << events.log;
}

TEST_F(PipelineLinksTest, LossAfterTheHandshakeNamesTheStage) {
  for (std::uint64_t epoch = 1; epoch <= 2; ++epoch) open(epoch);
  greet_first(1);
  const LinkId last = greet_last(1);
  const LinkId first = greet_first(2);
  greet_last(2);
  transport.lose(last);
  EXPECT_NE(events.log.find("lost1@2"), std::string::npos);
  EXPECT_EQ(events.reason, "connection reset");
  EXPECT_FALSE(links.linked(Epoch(1)));
  transport.lose(first);
  EXPECT_NE(events.log.find("lost2@0"), std::string::npos);
  const std::string log = events.log;
  transport.lose(first);
  transport.receive(last, FrameType::kTokens, Bytes(1));
  EXPECT_EQ(events.log, log) << "late events of closed links are dropped";
}

TEST_F(PipelineLinksTest, TheLastStageMayDialAgainUntilThePipelineServes) {
  open(1);
  const LinkId older = greet_last(1);
  const LinkId newer = greet_last(1);
  EXPECT_TRUE(transport.closed.contains(older));
  transport.lose(older);
  greet_first(1);
  EXPECT_EQ(events.log, "linked1 ");
  const LinkId third = greet_last(1);
  EXPECT_EQ(transport.sent[third].back().type, FrameType::kRefused);
  EXPECT_FALSE(transport.closed.contains(newer));
}

TEST_F(PipelineLinksTest, WrongFirstStagesEndThePipeline) {
  struct Case {
    FrameType type;
    Bytes payload;
    const char* says;
  };
  const Case cases[] = {
      {FrameType::kHello, hello(7, 0, "a"), "epoch 7"},
      {FrameType::kHello, hello(1, 1, "a"), "stage 1"},
      {FrameType::kHello, hello(1, 0, "a", 2), "arithmetic 2"},
      {FrameType::kTokens, Bytes(3), "type 6"},
      {FrameType::kRefused, encode_refused("wrong door"), "wrong door"},
  };
  for (const Case& each : cases) {
    open(1);
    const LinkId link = transport.open("a1");
    events.log.clear();
    transport.receive(link, each.type, each.payload);
    EXPECT_EQ(events.log, "lost1@0 ") << each.says;
    EXPECT_NE(events.reason.find(each.says), std::string::npos) << events.reason;
    EXPECT_TRUE(transport.closed.contains(link));
  }
  open(1);
  const LinkId link = greet_first(1);
  events.log.clear();
  transport.receive(link, FrameType::kHello, hello(1, 0, "a"));
  EXPECT_EQ(events.log, "lost1@0 ") << "one hello each way";
}

TEST_F(PipelineLinksTest, StrangersAreRefusedWithASentenceAndBounded) {
  open(1);
  const auto refusal = [&](FrameType type, Bytes payload) {
    const LinkId link = transport.incoming();
    transport.receive(link, type, std::move(payload));
    const Frame& frame = transport.sent[link].back();
    return frame.type == FrameType::kRefused ? decode_refused(frame.payload) : "";
  };
  EXPECT_NE(refusal(FrameType::kHello, hello(1, 1, "z")).find("not the last stage"),
            std::string::npos);
  EXPECT_NE(refusal(FrameType::kHello, hello(1, 2, "y")).find("on y"), std::string::npos);
  EXPECT_NE(refusal(FrameType::kHello, hello(1, 0xFFFFFFFF, "z")), "");
  EXPECT_NE(refusal(FrameType::kHello, hello(3, 2, "z")).find("epoch 3"), std::string::npos);
  EXPECT_NE(refusal(FrameType::kTokens, Bytes(4)).find("hello"), std::string::npos);
  EXPECT_NE(refusal(FrameType::kHello, Bytes(2)), "");
  clock.advance(seconds(1));
  links.on_timer();
  EXPECT_EQ(transport.closed.size(), 6u) << "the refused who stay are hung up on";
  for (std::uint32_t i = 0; i < limits::kConnections; ++i) transport.incoming();
  EXPECT_EQ(transport.closed.size(), 6u);
  const LinkId excess = transport.incoming();
  EXPECT_TRUE(transport.closed.contains(excess));
  clock.advance(seconds(5));
  links.on_timer();
  EXPECT_EQ(transport.closed.size(), 7u + limits::kConnections + 1) << "and our own silent dial";
  EXPECT_EQ(events.log, "lost1@0 ") << "which is given up";
}

TEST_F(PipelineLinksTest, AUsedTicketIsNotShownAgain) {
  const std::string route = "reverse " + std::string(64, 'a');
  for (const bool opened : {false, true}) {
    const Epoch epoch(opened ? 8 : 7);
    events.log.clear();
    links.open(epoch, 2, route, "a", "b");
    if (opened) transport.open(route);
    transport.lose(transport.dialled.back().first);
    EXPECT_EQ(events.log, "lost" + std::to_string(epoch.value) + "@0 ");
    EXPECT_EQ(events.never_opened, !opened);
  }
}

}  // namespace
}  // namespace hearth::coordinator

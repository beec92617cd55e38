#include "node/pipeline/data_links.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Heard final : DataLinkEvents {
  void on_linked() override { ++linked; }
  void on_peer_frame(Peer from, Frame frame) override {
    frames.emplace_back(from, std::move(frame));
  }
  void on_links_failed(const std::string& why, const std::string& peer, bool unreached) override {
    failures.push_back(why);
    never_opened.push_back(unreached);
    peers.push_back(peer);
  }
  int linked = 0;
  std::vector<std::pair<Peer, Frame>> frames;
  std::vector<std::string> failures;
  std::vector<std::string> peers;  // at the far ends of what failed
  std::vector<bool> never_opened;  // the links that failed
};

Assignment part(std::uint64_t epoch, std::uint32_t stage, std::uint32_t stages) {
  Assignment assignment;
  assignment.epoch = Epoch(epoch);
  assignment.stage = stage;
  assignment.stages = stages;
  assignment.next_address = "next:1";
  assignment.next_node = assignment.previous_node = "peer";
  assignment.coordinator_address = "home:1";
  return assignment;
}

Hello identity() {
  Hello hello;
  hello.canonical = 1;
  hello.node = "us";
  return hello;
}

struct DataLinksTest : ::testing::Test {
  testing::FakeClock clock;
  SeededRandom random{3};
  testing::FakeTransport transport;
  Heard heard;
  DataLinks links{identity(), clock, random, transport, heard};

  void SetUp() override { transport.set_events(&links); }
  static Bytes hello(std::uint64_t epoch, std::uint32_t stage, std::uint32_t canonical = 1) {
    Hello hello = identity();
    hello.canonical = canonical;
    hello.epoch = Epoch(epoch);
    hello.stage = stage;
    hello.node = "peer";
    return encode(hello);
  }
  // Dials and shakes hands.
  LinkId open(const std::string& address, std::uint64_t epoch, std::uint32_t stage) {
    const LinkId link = transport.open(address);
    transport.receive(link, FrameType::kHello, hello(epoch, stage));
    return link;
  }
  LinkId incoming(std::uint64_t epoch, std::uint32_t stage) {
    const LinkId link = transport.incoming();
    transport.receive(link, FrameType::kHello, hello(epoch, stage));
    return link;
  }
  // What a peer that dialled was told: "hello", "refused: ...", or nothing yet.
  std::string answer(LinkId link) {
    if (transport.sent[link].empty()) return "";
    const Frame& last = transport.sent[link].back();
    return last.type == FrameType::kRefused ? "refused: " + decode_refused(last.payload) : "hello";
  }
  void expect_refused(LinkId link, const std::string& why) {
    EXPECT_EQ(answer(link).find("refused: "), 0U) << answer(link);
    EXPECT_NE(answer(link).find(why), std::string::npos) << answer(link);
  }
  static Frame numbered(std::uint8_t number) {
    return {FrameType::kBatch, Bytes(1, std::byte{number})};
  }
  // The numbers of the frames that were sent after the Hello.
  std::string numbers(LinkId link) {
    std::string out;
    for (std::size_t i = 1; i < transport.sent[link].size(); ++i) {
      out += std::to_string(std::to_integer<int>(transport.sent[link][i].payload[0]));
    }
    return out;
  }
};

TEST_F(DataLinksTest, EveryStageDialsWhatItMustAndNothingElse) {
  for (std::uint32_t stages = 1; stages <= 4; ++stages) {
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      transport.dialled.clear();
      links.begin(part(stages * 10 + stage, stage, stages));
      std::vector<std::string> addresses;
      for (const auto& [link, address] : transport.dialled) addresses.push_back(address);
      std::vector<std::string> expected;
      if (stages > 1) expected.push_back("next:1");
      if (stage + 1 == stages) expected.push_back("home:1");
      EXPECT_EQ(addresses, expected) << stage << " of " << stages;
      EXPECT_FALSE(links.linked() && !expected.empty());
    }
  }
}

TEST_F(DataLinksTest, EveryStageAcceptsItsPreviousOneAndTheFirstTheCoordinator) {
  std::uint64_t epoch = 0;
  for (std::uint32_t stages = 1; stages <= 4; ++stages) {
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      links.begin(part(++epoch, stage, stages));
      for (std::uint32_t from = 0; from < stages; ++from) {
        const bool previous = stages > 1 && (from + 1) % stages == stage;
        EXPECT_EQ(answer(incoming(epoch, from)) == "hello", previous)
            << from << " to " << stage << " of " << stages;
      }
      EXPECT_EQ(answer(incoming(epoch, Hello::kCoordinatorStage)) == "hello", stage == 0);
    }
  }
}

// A worker of the roster that is somebody else than it says, or than the coordinator has assigned.
TEST_F(DataLinksTest, APeerIsWhoItsKeySays) {
  links.begin(part(1, 0, 3));
  const auto speak = [&](const std::string& name, Role role, std::uint32_t stage) {
    const LinkId link = transport.incoming();
    transport.peers[link] = RosterEntry{{}, name, role, {}};
    transport.receive(link, FrameType::kHello, hello(1, stage));
    return answer(link);
  };
  const std::string generic = "refused: this node is not admitted here";
  EXPECT_EQ(speak("mallory", Role::kWorker, 2), generic) << "with the name of another";
  EXPECT_EQ(speak("peer", Role::kClient, 2), generic);
  EXPECT_EQ(speak("peer", Role::kWorker, Hello::kCoordinatorStage), generic);
  EXPECT_EQ(speak("peer", Role::kCoordinator, 2), generic);
  const LinkId removed = transport.incoming();
  transport.peers[removed] = std::nullopt;
  transport.receive(removed, FrameType::kHello, hello(1, 2));
  EXPECT_EQ(answer(removed), generic);
  EXPECT_EQ(speak("peer", Role::kWorker, 2), "hello");
  EXPECT_EQ(speak("peer", Role::kCoordinator, Hello::kCoordinatorStage), "hello");
  links.end();
  Assignment assignment = part(2, 0, 3);
  assignment.previous_node = "another";
  links.begin(assignment);
  const LinkId honest = transport.incoming();
  transport.receive(honest, FrameType::kHello, hello(2, 2));
  EXPECT_EQ(answer(honest), generic) << "itself, but not the one assigned";
}

TEST_F(DataLinksTest, TheNextStageIsWhoItsKeySays) {
  const struct {
    const char* name;
    Role role;
    const char* why;
  } cases[] = {{"mallory", Role::kWorker, "worker mallory speaks as peer"},
               {"peer", Role::kCoordinator, "coordinator peer speaks as a worker"}};
  std::uint64_t epoch = 0;
  for (const auto& one : cases) {
    heard.failures.clear();
    links.begin(part(++epoch, 0, 2));
    const LinkId link = transport.open("next:1");
    transport.peers[link] = RosterEntry{{}, one.name, one.role, {}};
    transport.receive(link, FrameType::kHello, hello(epoch, 1));
    ASSERT_EQ(heard.failures.size(), 1U) << one.why;
    EXPECT_NE(heard.failures[0].find(one.why), std::string::npos) << heard.failures[0];
    links.end();
  }
  EXPECT_EQ(heard.linked, 0);
}

TEST_F(DataLinksTest, IsLinkedOnceBothDialledLinksHaveShakenHands) {
  links.begin(part(1, 2, 3));
  open("next:1", 1, 0);
  EXPECT_EQ(heard.linked, 0);
  EXPECT_FALSE(links.linked());
  open("home:1", 1, Hello::kCoordinatorStage);
  EXPECT_EQ(heard.linked, 1);
  EXPECT_TRUE(links.linked());
  links.end();
  EXPECT_FALSE(links.linked());
}

TEST_F(DataLinksTest, AnswersThatAreNotThoseOfTheRightPeerFailTheAssignment) {
  const struct {
    FrameType type;
    Bytes payload;
    const char* why;
  } cases[] = {
      {FrameType::kHello, hello(1, 1), "expected stage 2 of epoch 1, found stage 1"},
      {FrameType::kHello, hello(2, 2), "found stage 2 of epoch 2"},
      {FrameType::kHello, hello(1, Hello::kCoordinatorStage), "expected stage 2"},
      {FrameType::kHello, hello(1, 2, 9), "9"},
      {FrameType::kHello, Bytes(3), "next:1"},
      {FrameType::kRefused, encode_refused("go away"), "refused by the peer: go away"},
      {FrameType::kBatch, Bytes(3), "against the direction"},
      {FrameType::kTokens, {}, "against the direction"},
  };
  std::uint64_t epoch = 1;
  for (const auto& one : cases) {
    heard.failures.clear();
    DataLinks fresh(identity(), clock, random, transport, heard);
    transport.set_events(&fresh);
    fresh.begin(part(epoch, 1, 3));
    transport.receive(transport.open("next:1"), one.type, one.payload);
    ASSERT_EQ(heard.failures.size(), 1U) << one.why;
    EXPECT_NE(heard.failures[0].find(one.why), std::string::npos) << heard.failures[0];
    EXPECT_NE(heard.failures[0].find("next:1"), std::string::npos);
    EXPECT_EQ(heard.linked, 0);
  }
}

TEST_F(DataLinksTest, ASecondHelloOnADialledLinkIsAnError) {
  links.begin(part(1, 0, 2));
  const LinkId next = open("next:1", 1, 1);
  EXPECT_EQ(heard.linked, 1);
  transport.receive(next, FrameType::kHello, hello(1, 1));
  ASSERT_EQ(heard.failures.size(), 1U);
  EXPECT_NE(heard.failures[0].find("against the direction"), std::string::npos);
}

TEST_F(DataLinksTest, FramesBeforeAHelloOrTwoHellosAreRefused) {
  links.begin(part(4, 1, 3));
  const LinkId rude = transport.incoming();
  transport.receive(rude, FrameType::kBatch, Bytes(3));
  expect_refused(rude, "begins with one hello");
  const LinkId broken = transport.incoming();
  transport.receive(broken, FrameType::kHello, Bytes(2));
  EXPECT_EQ(answer(broken).find("refused"), 0U);
  const LinkId held = incoming(9, 0);
  EXPECT_EQ(answer(held), "");
  transport.receive(held, FrameType::kHello, hello(9, 0));
  expect_refused(held, "begins with one hello");
  const std::size_t said = transport.sent[held].size();
  transport.receive(held, FrameType::kBatch, Bytes(3));  // a refused peer is not answered again
  EXPECT_EQ(transport.sent[held].size(), said);
  EXPECT_TRUE(heard.frames.empty());
  EXPECT_TRUE(heard.failures.empty());
}

TEST_F(DataLinksTest, AHeldPeerGetsItsAnswerFromTheAssignmentThatComes) {
  links.begin(part(1, 1, 3));
  const LinkId right = incoming(3, 0);
  const LinkId wrong = incoming(3, 2);
  const LinkId skipped = incoming(2, 0);
  const LinkId later = incoming(4, 0);
  for (const LinkId link : {right, wrong, skipped, later}) EXPECT_EQ(answer(link), "");
  links.begin(part(3, 1, 3));
  EXPECT_EQ(answer(right), "hello");
  expect_refused(wrong, "stage 2 has no link to stage 1");
  expect_refused(skipped, "epoch 2 is over; the newest here is 3");
  EXPECT_EQ(answer(later), "");
  clock.advance(seconds(5));
  links.on_timer();
  expect_refused(later, "epoch 4 is not assigned here");
  EXPECT_FALSE(transport.closed.contains(later));
  clock.advance(seconds(1));
  links.on_timer();
  EXPECT_TRUE(transport.closed.contains(later));
  EXPECT_TRUE(transport.closed.contains(wrong));
  EXPECT_FALSE(transport.closed.contains(right));
}

TEST_F(DataLinksTest, APeerThatSaysNothingIsClosedAndAHeldOneThatLeavesIsForgotten) {
  const LinkId silent = transport.incoming();
  const LinkId gone = incoming(1, 0);
  clock.advance(milliseconds(4'999));
  links.on_timer();
  EXPECT_FALSE(transport.closed.contains(silent));
  transport.lose(gone);
  links.begin(part(1, 1, 3));
  EXPECT_EQ(answer(gone), "");
  clock.advance(milliseconds(1));
  links.on_timer();
  EXPECT_TRUE(transport.closed.contains(silent));
}

TEST_F(DataLinksTest, ANewLinkOfAPeerReplacesAnUnusedOneAndNeverAUsedOne) {
  links.begin(part(1, 1, 3));
  const LinkId first = incoming(1, 0);
  const LinkId second = incoming(1, 0);
  expect_refused(first, "replaced by a newer link");
  EXPECT_EQ(answer(second), "hello");
  transport.receive(first, FrameType::kBatch, Bytes(1));
  EXPECT_TRUE(heard.frames.empty());
  transport.receive(second, FrameType::kBatch, Bytes(1));
  ASSERT_EQ(heard.frames.size(), 1U);
  EXPECT_EQ(heard.frames[0].first, Peer::kRing);
  const LinkId third = incoming(1, 0);
  expect_refused(third, "has a link already");
  transport.lose(second);
  EXPECT_EQ(answer(incoming(1, 0)), "hello");
}

TEST_F(DataLinksTest, FramesOfClosedEpochsAreCountedAndDropped) {
  links.begin(part(1, 0, 2));
  const LinkId next = open("next:1", 1, 1);
  const LinkId ring = incoming(1, 1);
  const LinkId home = incoming(1, Hello::kCoordinatorStage);
  links.begin(part(2, 0, 2));
  for (const LinkId link : {next, ring, home}) {
    EXPECT_TRUE(transport.closed.contains(link));
    transport.receive(link, FrameType::kTokens, Bytes(1));
    transport.lose(link);  // the last event of a link that we closed
  }
  EXPECT_EQ(links.late_frames(), 3U);
  EXPECT_TRUE(heard.frames.empty());
  EXPECT_TRUE(heard.failures.empty());
}

TEST_F(DataLinksTest, DialsAgainWhileFormingAndFailsOnceThatTakesTooLong) {
  links.begin(part(1, 0, 2));
  for (int passed = 0; passed < 4'000; passed += 20) {
    const LinkId newest = transport.dialled.back().first;
    if (passed % 60 == 0) transport.lose(newest);
    clock.advance(milliseconds(20));
    links.on_timer();
    ASSERT_TRUE(heard.failures.empty()) << passed;
  }
  EXPECT_GE(transport.dialled.size(), 4U);
  EXPECT_LE(transport.dialled.size(), 15U);  // pauses grow
  clock.advance(seconds(2));
  links.on_timer();
  transport.lose(transport.dialled.back().first);
  ASSERT_EQ(heard.failures.size(), 1U);
  EXPECT_NE(heard.failures[0].find("connection reset"), std::string::npos);
}

TEST_F(DataLinksTest, APeerThatNeverAnswersIsClosedAndDialledAgain) {
  links.begin(part(1, 0, 2));
  const LinkId mute = transport.open("next:1");
  clock.advance(seconds(2));
  links.on_timer();
  EXPECT_TRUE(transport.closed.contains(mute));
  transport.receive(mute, FrameType::kHello, hello(1, 1));
  EXPECT_EQ(heard.linked, 0);
  EXPECT_EQ(links.late_frames(), 1U);
  clock.advance(milliseconds(100));
  links.on_timer();
  EXPECT_NE(transport.dialled.back().first, mute);
  open("next:1", 1, 1);
  EXPECT_EQ(heard.linked, 1);
}

TEST_F(DataLinksTest, ARouteWithATicketHasTheWholeTimeForItsOneAttempt) {
  const std::string route = "relayed " + std::string(64, 'a') + " 10.0.0.1:4000";
  Assignment assignment = part(1, 0, 2);
  assignment.next_address = route;
  links.begin(assignment);
  for (int passed = 0; passed < 4'800; passed += 300) {
    clock.advance(milliseconds(300));
    links.on_timer();
  }
  EXPECT_EQ(transport.dialled.size(), 1U);
  EXPECT_TRUE(transport.closed.empty());
  open(route, 1, 1);
  EXPECT_EQ(heard.linked, 1);
}

TEST_F(DataLinksTest, AUsedTicketIsNotShownAgain) {
  const std::string route = "relayed " + std::string(64, 'a') + " 10.0.0.1:4000";
  for (const bool opened : {false, true}) {
    heard = Heard();
    Assignment assignment = part(opened ? 2 : 1, 0, 2);
    assignment.next_address = route;
    links.begin(assignment);
    if (opened) transport.open(route);
    transport.lose(transport.dialled.back().first);
    ASSERT_EQ(heard.failures.size(), 1U);
    EXPECT_EQ(heard.never_opened[0], !opened);
    links.end();
  }
}

TEST_F(DataLinksTest, ALinkToAnotherNodeDidNotReachTheOneWanted) {
  links.begin(part(1, 0, 2));
  const LinkId link = transport.dialled.back().first;
  transport.peers[link] = RosterEntry{{}, "another", Role::kWorker, {}};
  transport.open("next:1");
  transport.receive(link, FrameType::kRefused, encode_refused("not here"));
  ASSERT_EQ(heard.failures.size(), 1U);
  EXPECT_TRUE(heard.never_opened[0]);
}

TEST_F(DataLinksTest, ALinkLostAfterLinkingFailsAtOnceAndAnAcceptedOneDoesNot) {
  links.begin(part(1, 0, 2));
  const LinkId next = open("next:1", 1, 1);
  const LinkId ring = incoming(1, 1);
  transport.lose(ring);
  EXPECT_TRUE(heard.failures.empty());  // the side that dialled reports it, or is missed
  transport.lose(next);
  ASSERT_EQ(heard.failures.size(), 1U);
  EXPECT_NE(heard.failures[0].find("link to next:1 lost"), std::string::npos);
  EXPECT_EQ(heard.peers[0], "peer");
}

TEST_F(DataLinksTest, AFrameThatWaitsForRoomIsNotCopied) {
  links.begin(part(1, 0, 2));
  const LinkId next = open("next:1", 1, 1);
  transport.full.insert(next);
  Frame frame{FrameType::kBatch, Bytes(1'000)};
  const std::byte* bytes = frame.payload.data();
  links.send(Peer::kRing, std::move(frame));
  for (int i = 0; i < 5; ++i) links.on_timer();
  transport.full.clear();
  links.on_timer();
  EXPECT_EQ(transport.sent[next].back().payload.data(), bytes);
}

TEST_F(DataLinksTest, QueuesKeepTheirOrderAndTheRingWaitsForTheCoordinator) {
  links.begin(part(1, 1, 2));
  links.send(Peer::kRing, numbered(1));  // not linked yet
  EXPECT_EQ(links.queued(Peer::kRing), 1U);
  const LinkId next = open("next:1", 1, 0);
  const LinkId home = open("home:1", 1, Hello::kCoordinatorStage);
  links.on_timer();
  EXPECT_EQ(numbers(next), "1");
  transport.full.insert(home);
  links.send(Peer::kCoordinator, numbered(2));
  links.send(Peer::kRing, numbered(3));
  links.send(Peer::kCoordinator, numbered(4));
  EXPECT_EQ(numbers(home), "");
  EXPECT_EQ(numbers(next), "1");
  EXPECT_EQ(links.queued(Peer::kRing), 1U);
  transport.full.clear();
  transport.full.insert(next);
  links.on_timer();
  EXPECT_EQ(numbers(home), "24");
  EXPECT_EQ(numbers(next), "1");
  links.send(Peer::kRing, numbered(5));
  links.send(Peer::kCoordinator, numbered(6));  // the coordinator does not wait for the ring
  EXPECT_EQ(numbers(home), "246");
  transport.full.clear();
  links.on_timer();
  EXPECT_EQ(numbers(next), "135");
  links.end();
  links.send(Peer::kRing, numbered(7));
  EXPECT_EQ(links.queued(Peer::kRing), 0U);
}

TEST_F(DataLinksTest, WhatAnEpochQueuedNeverReachesTheNext) {
  links.begin(part(1, 0, 2));
  links.send(Peer::kRing, numbered(1));
  links.begin(part(2, 0, 2));
  EXPECT_EQ(links.queued(Peer::kRing), 0U);
  const LinkId next = open("next:1", 2, 1);
  links.send(Peer::kRing, numbered(2));
  EXPECT_EQ(numbers(next), "2");
}

TEST_F(DataLinksTest, TakesNoMoreConnectionsThanTheLimit) {
  LinkId last;
  for (std::uint32_t i = 0; i < limits::kConnections; ++i) last = transport.incoming();
  EXPECT_FALSE(transport.closed.contains(last));
  const LinkId over = transport.incoming();
  EXPECT_TRUE(transport.closed.contains(over));
  transport.lose(last);
  EXPECT_FALSE(transport.closed.contains(transport.incoming()));
}

}  // namespace
}  // namespace hearth::node

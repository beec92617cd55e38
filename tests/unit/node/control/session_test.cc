#include "node/control/session.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Orders final : ControlEvents {
  void on_assign(const control::v1::Assign& assign) override { assigned.push_back(assign.epoch()); }
  void on_unassign(Epoch epoch) override { unassigned.push_back(epoch.value); }
  void on_control_lost() override { ++lost; }
  void fill_heartbeat(control::v1::Heartbeat& heartbeat) override {
    heartbeat.set_steps_total(++beats);
  }
  void on_proof(const CoordinatorMessage& order) override {
    countersigned += order.countersign().windows_size();
    to_seal += order.seal_order().windows_size();
    to_open += order.open_order().entries_size();
    if (order.has_accusation()) accused = order.accusation().entry();
    if (order.has_self_check()) to_check = order.self_check().number();
  }
  std::uint64_t accused = 0;
  std::uint64_t to_check = 0;
  int to_seal = 0;
  int to_open = 0;
  int countersigned = 0;
  std::vector<std::uint64_t> assigned;
  std::vector<std::uint64_t> unassigned;
  int lost = 0;
  Bytes held;  // the answer to a roster
  std::vector<std::string> rosters;
  std::vector<std::string> probed;
  std::uint64_t measures = 0;
  std::uint64_t beats = 0;
};

struct ControlSessionTest : ::testing::Test {
  testing::FakeClock clock;
  SeededRandom random{5};
  testing::FakeTransport transport;
  Orders orders;
  StageOptions options = [this] {
    StageOptions options;
    options.node = "w1";
    options.control_address = "home:1";
    options.layers = 7;
    options.process_id = 42;
    options.take_roster = [this](ByteSpan roster) {
      orders.rosters.emplace_back(as_text(roster));
      return orders.held;
    };
    options.measure = [this](const auto&) { ++orders.measures; };
    options.probe = [this](std::string node, const std::string&, const auto&) {
      orders.probed.push_back(std::move(node));
    };
    return options;
  }();
  ControlSession session{options, "here:2", clock, random, transport, orders};
  LinkId link;

  void SetUp() override {
    transport.set_events(&session);
    session.dial();
  }
  void tell(const std::function<void(CoordinatorMessage&)>& fill) {
    CoordinatorMessage message;
    fill(message);
    Bytes payload(message.ByteSizeLong());
    message.SerializeToArray(payload.data(), static_cast<int>(payload.size()));
    transport.receive(link, FrameType::kControl, std::move(payload));
  }
  void registered(std::uint32_t heartbeat = 250) {
    tell([&](auto& m) { m.mutable_registered()->set_heartbeat_milliseconds(heartbeat); });
  }
  void begin() {
    link = transport.open("home:1");
    registered();
  }
  void assign(std::uint64_t epoch) {
    tell([&](auto& m) { m.mutable_assign()->set_epoch(epoch); });
  }
  void pass(Duration pause) {
    clock.advance(pause);
    session.on_timer();
  }
  WorkerMessage said() {
    WorkerMessage message;
    const Bytes& payload = transport.sent[link].back().payload;
    message.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
    return message;
  }
};

TEST_F(ControlSessionTest, BehindARouterItAsksForAPortAndSaysWhichItGot) {
  std::vector<bool> asked;
  std::uint16_t port = 0;
  options.behind_router = [&asked](bool is_behind) { asked.push_back(is_behind); };
  options.outside_port = [&port] { return port; };
  begin();
  EXPECT_EQ(asked, std::vector{false});
  pass(milliseconds(250));
  EXPECT_EQ(said().heartbeat().outside_port(), 0U);
  tell([](auto& m) {
    m.mutable_registered()->set_heartbeat_milliseconds(250);
    m.mutable_registered()->set_behind_router(true);
  });
  EXPECT_EQ(asked, (std::vector{false, true}));
  port = 4711;
  pass(milliseconds(250));
  EXPECT_EQ(said().heartbeat().outside_port(), 4711U);
}

// As a worker of this machine's server while that is down.
TEST_F(ControlSessionTest, DialsNothingWhileThereIsNoAddress) {
  Result<std::string> found = Error{ErrorCode::kUnavailable, "no server runs"};
  options.find_coordinator = [&found] { return found; };
  const std::size_t before = transport.dialled.size();
  session.dial();
  pass(seconds(3));
  EXPECT_EQ(transport.dialled.size(), before);
  found = std::string("home:2");
  pass(seconds(3));
  ASSERT_EQ(transport.dialled.size(), before + 1);
  EXPECT_EQ(transport.dialled.back().second, "home:2");
}

TEST_F(ControlSessionTest, DialsTheNextCoordinatorWithoutAPause) {
  std::size_t tried = 0;
  options.find_coordinator = [&tried] { return "home:" + std::to_string(++tried % 2); };
  options.tried_all = [&tried] { return tried % 2 == 0; };
  session.dial();
  const std::size_t before = transport.dialled.size();
  session.on_link_closed(transport.dialled.back().first, {ErrorCode::kUnavailable, "refused"});
  pass(milliseconds(20));
  session.on_timer();
  ASSERT_EQ(transport.dialled.size(), before + 1);
  EXPECT_EQ(transport.dialled.back().second, "home:0");
  session.on_link_closed(transport.dialled.back().first, {ErrorCode::kUnavailable, "refused"});
  pass(milliseconds(20));
  session.on_timer();
  EXPECT_EQ(transport.dialled.size(), before + 1) << "both were tried: the next dial waits";
}

TEST_F(ControlSessionTest, ASlowCoordinatorIsWaitedForInTheSecondRound) {
  std::size_t tried = 0;
  options.find_coordinator = [&tried] { return "home:" + std::to_string(++tried % 2); };
  options.tried_all = [&tried] { return tried % 2 == 0; };
  session.dial();
  while (tried < 3) pass(milliseconds(100));
  const std::size_t before = transport.dialled.size();
  pass(seconds(9));
  EXPECT_EQ(transport.dialled.size(), before) << "it gets the time of a lone coordinator";
  link = transport.dialled.back().first;
  transport.open("home:1");
  registered();
  EXPECT_EQ(tried, 3U);
}

TEST_F(ControlSessionTest, SaysWhoItIsAndBeatsAsItIsTold) {
  begin();
  const auto body = said().register_();
  EXPECT_EQ(body.node(), "w1");
  EXPECT_EQ(body.layers(), 7U);
  EXPECT_EQ(body.newest_epoch(), 0U);
  EXPECT_EQ(body.data_address(), "here:2");
  EXPECT_EQ(body.process_id(), 42U);
  EXPECT_EQ(body.protocol_version(), kProtocolVersion);
  pass(milliseconds(249));
  EXPECT_EQ(orders.beats, 0U);
  pass(milliseconds(1));
  EXPECT_EQ(said().heartbeat().steps_total(), 1U);
  session.on_timer();
  EXPECT_EQ(orders.beats, 1U);
  pass(seconds(5));  // a late timer makes up for nothing
  session.on_timer();
  EXPECT_EQ(orders.beats, 2U);
}

TEST_F(ControlSessionTest, HeartbeatsAreKeptWithinTheirBounds) {
  begin();
  registered(0);
  pass(milliseconds(9));
  EXPECT_EQ(orders.beats, 0U);
  pass(milliseconds(1));
  EXPECT_EQ(orders.beats, 1U);
  registered(0xFFFFFFFF);
  pass(milliseconds(59'999));
  EXPECT_EQ(orders.beats, 1U);
  pass(milliseconds(1));
  EXPECT_EQ(orders.beats, 2U);
}

TEST_F(ControlSessionTest, OrdersCountOnlyInASessionThatHasBegun) {
  assign(1);  // nothing is open yet
  link = transport.open("home:1");
  assign(2);
  tell([](auto& m) { m.mutable_unassign()->set_epoch(2); });
  EXPECT_TRUE(orders.assigned.empty() && orders.unassigned.empty());
  registered();
  assign(3);
  tell([](auto& m) { m.mutable_unassign()->set_epoch(9); });
  EXPECT_EQ(orders.assigned, std::vector<std::uint64_t>{3});
  EXPECT_EQ(orders.unassigned, std::vector<std::uint64_t>{9});
  const LinkId old = link;
  transport.lose(old);
  assign(4);
  EXPECT_EQ(orders.assigned.size(), 1U);
}

TEST_F(ControlSessionTest, HandsOnWhatIsToBeSealedAndOpened) {
  link = transport.open("home:1");
  registered();
  tell([](auto& m) { m.mutable_seal_order()->add_windows()->set_entry(3); });
  tell([](auto& m) { m.mutable_open_order()->add_entries(3); });
  EXPECT_EQ(orders.to_seal, 1);
  EXPECT_EQ(orders.to_open, 1);
}

TEST_F(ControlSessionTest, ALossInAnyStateIsToldOnlyOfASession) {
  transport.lose(transport.dialled.back().first);  // dialling
  EXPECT_EQ(orders.lost, 0);
  pass(seconds(2));
  link = transport.open("home:1");
  transport.lose(link);  // registering
  EXPECT_EQ(orders.lost, 0);
  pass(seconds(2));
  begin();
  transport.lose(link);
  EXPECT_EQ(orders.lost, 1);
  transport.lose(link);  // the same link again, and an unknown one
  transport.lose(LinkId(999));
  EXPECT_EQ(orders.lost, 1);
}

TEST_F(ControlSessionTest, EventsOfAnOldLinkDoNotTouchTheNewOne) {
  begin();
  const LinkId old = link;
  transport.lose(old);
  pass(seconds(2));
  begin();
  ASSERT_NE(link, old);
  transport.lose(old);
  transport.receive(old, FrameType::kControl, Bytes(3));
  transport.receive(old, FrameType::kBatch, Bytes(3));
  EXPECT_EQ(orders.lost, 1);
  assign(8);
  EXPECT_EQ(orders.assigned, std::vector<std::uint64_t>{8});
}

TEST_F(ControlSessionTest, BytesThatAreNoOrderEndTheSession) {
  const std::pair<FrameType, Bytes> cases[] = {
      {FrameType::kControl, Bytes(1, std::byte{0xFF})},
      {FrameType::kControl, {}},
      {FrameType::kControl, Bytes(limits::kControlMessageBytes + 1)},
      {FrameType::kBatch, {}},
      {FrameType::kHello, Bytes(4)},
  };
  int lost = 0;
  for (const auto& [type, payload] : cases) {
    begin();
    transport.receive(link, type, payload);
    EXPECT_EQ(orders.lost, ++lost);
    EXPECT_TRUE(transport.closed.contains(link));
    pass(seconds(2));
  }
}

TEST_F(ControlSessionTest, ASilentCoordinatorIsGivenUpAndDialledAgain) {
  const LinkId first = transport.dialled.back().first;
  pass(milliseconds(9'999));
  EXPECT_FALSE(transport.closed.contains(first));
  pass(milliseconds(1));
  EXPECT_TRUE(transport.closed.contains(first));
  pass(milliseconds(100));
  link = transport.open("home:1");
  ASSERT_NE(link, first);
  pass(seconds(10));  // open, and no answer to Register
  EXPECT_TRUE(transport.closed.contains(link));
  EXPECT_EQ(orders.lost, 0);
}

TEST_F(ControlSessionTest, PausesGrowToTwoSecondsAndBeginAnewAfterASession) {
  const auto attempts_in = [&](Duration time) {
    const std::size_t before = transport.dialled.size();
    for (Duration passed{}; passed < time; passed += milliseconds(10)) {
      pass(milliseconds(10));
      if (transport.dialled.size() > before) transport.lose(transport.dialled.back().first);
    }
    return transport.dialled.size() - before;
  };
  transport.lose(transport.dialled.back().first);
  attempts_in(seconds(20));
  const std::size_t late = attempts_in(seconds(20));
  EXPECT_GE(late, 9U);   // at most 2 s apart
  EXPECT_LE(late, 21U);  // at least 1 s apart
  while (transport.closed.contains(transport.dialled.back().first)) pass(milliseconds(10));
  begin();
  transport.lose(link);
  const std::size_t before = transport.dialled.size();
  pass(milliseconds(100));  // the shortest pause again
  EXPECT_EQ(transport.dialled.size(), before + 1);
}

TEST_F(ControlSessionTest, AFullQueueIsACoordinatorThatStoppedReading) {
  begin();
  transport.full.insert(link);
  pass(milliseconds(250));
  EXPECT_EQ(orders.lost, 1);
  EXPECT_TRUE(transport.closed.contains(link));
  session.send({});  // without a link
  EXPECT_EQ(orders.lost, 1);
}

TEST_F(ControlSessionTest, ARefusalEndsASessionOnceAndForGood) {
  begin();
  tell([](auto& m) { m.mutable_refused()->set_reason("two\nlines \x1B[31m"); });
  EXPECT_EQ(orders.lost, 1);
  EXPECT_NE(session.refused().find("two"), std::string::npos);
  EXPECT_EQ(session.refused().find_first_of("\n\x1B"), std::string::npos);
  const std::size_t dialled = transport.dialled.size();
  transport.lose(link);
  assign(3);
  for (int i = 0; i < 100; ++i) pass(seconds(1));
  EXPECT_EQ(transport.dialled.size(), dialled);
  EXPECT_EQ(orders.lost, 1);
  EXPECT_TRUE(orders.assigned.empty());
}

TEST_F(ControlSessionTest, ARefusalThatMayPassIsTriedAgainForTenSeconds) {
  const auto refuse = [&] {
    link = transport.open("home:1");
    tell([](auto& m) {
      m.mutable_refused()->set_reason("a worker named w1 is connected");
      m.mutable_refused()->set_may_pass(true);
    });
  };
  const auto dial_again = [&] {
    for (const std::size_t before = transport.dialled.size(); transport.dialled.size() == before;) {
      pass(milliseconds(50));
    }
  };
  refuse();
  EXPECT_EQ(session.refused(), "");
  dial_again();
  begin();  // the reason has passed
  transport.lose(link);
  dial_again();
  const TimePoint again = clock.now();
  refuse();
  while (session.refused().empty()) {
    dial_again();
    refuse();
  }
  EXPECT_GE(clock.now() - again, seconds(10)) << "counted from the first refusal in a row";
  EXPECT_LE(clock.now() - again, seconds(13));
  EXPECT_NE(session.refused().find("a worker named w1 is connected"), std::string::npos);
  const std::size_t dialled = transport.dialled.size();
  for (int i = 0; i < 100; ++i) pass(seconds(1));
  EXPECT_EQ(transport.dialled.size(), dialled);
}

TEST_F(ControlSessionTest, AWorkerOfAnotherModelIsTriedAgainUntilItsModelIsLoaded) {
  int told = 0;
  options.on_other_model = [&told] { ++told; };
  const TimePoint first = clock.now();
  for (int i = 1; clock.now() - first < seconds(60); ++i) {
    link = transport.open("home:1");
    tell([](auto& m) {
      m.mutable_refused()->set_reason("another model");
      m.mutable_refused()->set_may_pass(true);
      m.mutable_refused()->set_other_model(true);
    });
    EXPECT_EQ(told, i);
    EXPECT_EQ(session.refused(), "");
    for (const std::size_t before = transport.dialled.size(); transport.dialled.size() == before;) {
      pass(milliseconds(50));
    }
  }
  begin();
  EXPECT_EQ(session.refused(), "");
  assign(1);
  EXPECT_EQ(orders.assigned, (std::vector<std::uint64_t>{1}));
}

TEST_F(ControlSessionTest, WhoIsNotAdmittedTriesForTenSecondsAndEnds) {
  const TimePoint first = clock.now();
  link = transport.dialled.back().first;
  transport.lose(link, kNotAdmitted);
  EXPECT_EQ(session.refused(), "") << "a coordinator that starts learns who is in";
  for (int i = 0; i < 1000 && session.refused().empty(); ++i) {
    pass(milliseconds(50));
    if (transport.dialled.back().first == link) continue;
    link = transport.dialled.back().first;
    transport.lose(link, kNotAdmitted);
  }
  EXPECT_NE(session.refused().find(kNotAdmitted), std::string::npos);
  EXPECT_GE(clock.now() - first, seconds(10));
  EXPECT_LE(clock.now() - first, seconds(13));
}

TEST_F(ControlSessionTest, WhoDialsAWorkersControlPortIsHungUpOn) {
  const LinkId stranger = transport.incoming();
  EXPECT_TRUE(transport.closed.contains(stranger));
  EXPECT_EQ(orders.lost, 0);
}

TEST_F(ControlSessionTest, HandsOnRosters) {
  begin();
  tell([](auto& m) { m.mutable_roster()->set_roster("one"); });
  tell([](auto& m) { m.mutable_roster()->set_roster("two"); });
  EXPECT_EQ(orders.rosters, (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(said().has_register_()) << "there is nothing to say to them";
}

TEST_F(ControlSessionTest, HandsOnAnAdminsOrders) {
  std::vector<std::optional<Away>> taken;
  options.take_order = [&](const std::optional<Away>& away) { taken.push_back(away); };
  begin();
  tell([](auto& m) { m.mutable_host_order()->mutable_away()->set_until(-5); });
  tell([](auto& m) { m.mutable_host_order(); });
  EXPECT_EQ(taken, (std::vector<std::optional<Away>>{Away{}, std::nullopt}));
}

TEST_F(ControlSessionTest, HandsOnRoutesToMeetAndLinksToForward) {
  std::vector<std::string> met;
  std::vector<std::string> forwarded;
  options.meet = [&](const std::string& route) { met.push_back(route); };
  options.forward = [&](const Ticket& dialler, const Ticket& acceptor, const std::string& account,
                        bool brief) {
    forwarded.push_back(dialler.hex().substr(0, 2) + acceptor.hex().substr(0, 2) + account +
                        (brief ? "!" : ""));
  };
  begin();
  tell([](auto& m) { m.mutable_meet()->set_route("10.0.0.1:1"); });
  tell([](auto& m) { m.mutable_meet()->set_route(std::string(limits::kAddressBytes + 1, '1')); });
  EXPECT_EQ(met, std::vector<std::string>{"10.0.0.1:1"});
  const auto forward = [&](std::size_t dialler, std::size_t acceptor, const std::string& account) {
    tell([&](auto& m) {
      m.mutable_forward()->set_dialler(std::string(dialler, 'a'));
      m.mutable_forward()->set_acceptor(std::string(acceptor, 'b'));
      m.mutable_forward()->set_account(account);
      m.mutable_forward()->set_brief(true);
    });
  };
  forward(32, 32, "den");
  forward(31, 32, "den");
  forward(32, 33, "den");
  forward(32, 32, "");
  forward(32, 32, std::string(limits::kNodeNameBytes + 1, 'n'));
  EXPECT_EQ(forwarded, std::vector<std::string>{"6162den!"});
}

TEST_F(ControlSessionTest, ShowsTheRosterThatItHoldsAgainstAnOlderOne) {
  begin();
  for (const char byte : {'n', 'e', 'w'}) orders.held.push_back(static_cast<std::byte>(byte));
  tell([](auto& m) { m.mutable_roster()->set_roster("old"); });
  EXPECT_EQ(said().roster().roster(), "new");
}

TEST_F(ControlSessionTest, WhoSentWrongBytesIsSaidWhereSomebodyHearsIt) {
  std::vector<WrongBytes> wrong = {{"desk", blake2b(as_bytes("m")), "the header", 0, 9}};
  options.wrong_bytes = [&] { return std::exchange(wrong, {}); };
  session.set_away(Away{});
  EXPECT_EQ(wrong.size(), 1U) << "there is no session yet";
  begin();
  pass(milliseconds(250));
  ASSERT_EQ(said().heartbeat().wrong_bytes_size(), 1);
  EXPECT_EQ(said().heartbeat().wrong_bytes(0).node(), "desk");
  pass(milliseconds(250));
  EXPECT_EQ(said().heartbeat().wrong_bytes_size(), 0) << "once";
}

TEST_F(ControlSessionTest, MeasuresWhereTheCoordinatorWantsItTo) {
  begin();
  EXPECT_EQ(orders.measures, 0U);
  tell([](auto& m) { m.mutable_registered()->set_measure(true); });
  EXPECT_EQ(orders.measures, 1U);
  tell([](auto& m) { m.mutable_probe()->set_node("den"); });
  EXPECT_EQ(orders.probed, std::vector<std::string>{"den"});
}

}  // namespace
}  // namespace hearth::node

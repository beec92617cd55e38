// Links to workers that cannot be dialled: what each side is told.
#include "coordinator/machine/meetings.h"

#include <map>
#include <string>

#include "proto/link/route.h"
#include "tests/unit/coordinator/machine/swarm.h"

namespace hearth::coordinator {
namespace {

struct MeetingsTest : ::testing::Test {
  struct Expected {
    Ticket dialler;
    Ticket acceptor;
    std::string account;
    bool brief = false;
  };
  std::vector<Expected> expected;  // by the relay
  bool full = false;
  std::vector<Expected> punched;  // by the coordinator's ports
  bool punches_full = false;
  std::vector<std::string> dialled;  // to see whether a router's port answers
  std::optional<bool> answer;
  Swarm swarm;

  MeetingsTest() : MeetingsTest(testing::swarm_options(2)) {}
  explicit MeetingsTest(CoordinatorOptions given, bool punches = false)
      : swarm(with_punches(with_relay(std::move(given)), punches)) {
    swarm.data.own_address = "203.0.113.200:4000";
  }

  CoordinatorOptions with_relay(CoordinatorOptions options) {
    options.relay = [this](const Ticket& dialler, const Ticket& acceptor,
                           const std::string& account, bool brief) -> Status {
      if (full) return Error{ErrorCode::kNoCapacity, "the relay is full"};
      expected.push_back({dialler, acceptor, account, brief});
      return ok_status();
    };
    options.answers = [this](const std::string& address) {
      dialled.push_back(address);
      return answer;
    };
    return options;
  }
  CoordinatorOptions with_punches(CoordinatorOptions options, bool wanted) {
    if (!wanted) return options;
    options.punch = [this](const Ticket& dialler, const Ticket& acceptor,
                           const std::string& account) -> Result<std::uint16_t> {
      if (punches_full) return Error{ErrorCode::kNoCapacity, "too many are under way"};
      punched.push_back({dialler, acceptor, account});
      return std::uint16_t{4001};
    };
    return options;
  }
  // A worker whose router shows it as `seen`.
  void join(const std::string& name, const std::string& own, const std::string& seen,
            std::uint32_t protocol = kProtocolVersion, std::uint32_t relay_megabits = 0) {
    WorkerMessage message;
    *message.mutable_register_() = testing::worker(name);
    message.mutable_register_()->set_data_address(own + ":4000");
    message.mutable_register_()->set_protocol_version(protocol);
    message.mutable_register_()->set_relay_megabits(relay_megabits);
    const LinkId link = swarm.control.incoming();
    swarm.control.hosts[link] = seen;
    swarm.sessions[name] = link;
    swarm.say(link, message);
  }
  std::vector<CoordinatorMessage> told(const std::string& name) {
    return swarm.told(swarm.sessions[name]);
  }
  void forward(const std::string& name, std::uint32_t port) {
    WorkerMessage beat;
    beat.mutable_heartbeat()->set_outside_port(port);
    swarm.say(swarm.sessions[name], beat);
  }
  std::vector<Route> meets(const std::string& name) {
    std::vector<Route> routes;
    for (const CoordinatorMessage& message : told(name)) {
      if (message.has_meet()) routes.push_back(parse_route(message.meet().route()).value());
    }
    return routes;
  }
  std::string next_address(const std::string& name) {
    std::string address;
    for (const CoordinatorMessage& message : told(name)) {
      if (message.has_assign()) address = message.assign().next_address();
    }
    return address;
  }
  void fail(const std::string& name, const std::string& peer, bool unreached = true) {
    WorkerMessage message;
    message.mutable_stage_failed()->set_epoch(swarm.machine->status().pipelines[0].epoch.value);
    message.mutable_stage_failed()->set_error("connecting: timed out");
    message.mutable_stage_failed()->set_peer(peer);
    message.mutable_stage_failed()->set_unreached(unreached);
    swarm.say(swarm.sessions[name], message);
    for (int i = 0; i < 200 && swarm.machine->status().pipelines.empty(); ++i) {
      swarm.clock.advance(milliseconds(250));
      for (const auto& [each, link] : swarm.sessions) swarm.beat(each);
      swarm.machine->on_timer();
    }
    ASSERT_EQ(swarm.machine->status().pipelines.size(), 1U);
  }
};

TEST_F(MeetingsTest, TwoNodesBehindRoutersMeetAtTheRelay) {
  join("desk", "192.168.1.2", "203.0.113.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 1U);
  const std::vector<std::string> nodes = swarm.machine->status().pipelines[0].nodes;
  ASSERT_EQ(expected.size(), 2U) << "one link each way round the ring";
  for (const Expected& link : expected) {
    const std::string& from = link.account;
    const std::string& to = from == "desk" ? "attic" : "desk";
    EXPECT_EQ(next_address(from), relayed_route(link.dialler, swarm.data.address()));
    const auto met = meets(to);
    EXPECT_TRUE(std::ranges::any_of(met, [&](const Route& route) {
      return route.ticket == link.acceptor && route.address.text() == swarm.data.address();
    }));
    EXPECT_NE(link.dialler, link.acceptor);
  }
  // The coordinator's link to the first stage is opened by that stage.
  ASSERT_EQ(swarm.data.dialled.size(), 1U);
  const Route own = parse_route(swarm.data.dialled[0].second).value();
  EXPECT_EQ(own.kind, RouteKind::kReverse);
  const auto met = meets(nodes[0]);
  EXPECT_TRUE(
      std::ranges::any_of(met, [&](const Route& route) { return route.ticket == own.ticket; }));
  const std::vector<LinkRoute> routes = swarm.machine->status().pipelines[0].routes;
  for (const LinkRoute& route : routes) {
    EXPECT_EQ(route.kind, RouteKind::kRelayed);
    EXPECT_EQ(route.relay, "");
  }
  for (const NodeStatus& node : swarm.machine->status().nodes) {
    EXPECT_TRUE(node.seen_host.starts_with("203.0.113.")) << node.seen_host;
  }
}

TEST_F(MeetingsTest, WithoutRoomAtTheRelayTheAddressOfAnotherNetworkIsNotDialled) {
  full = true;
  join("desk", "192.168.1.2", "203.0.113.1");
  join("attic", "192.168.1.3", "203.0.113.2");
  EXPECT_EQ(next_address("desk"), "");
  EXPECT_EQ(swarm.machine->route("desk", "attic").error().code, ErrorCode::kNoCapacity);
  fail("desk", "", false);
  EXPECT_NE(swarm.machine->status().missing.find("no relay for the link from desk to attic: the "
                                                 "relay is full"),
            std::string::npos)
      << swarm.machine->status().missing;
}

TEST_F(MeetingsTest, APortThatTheRouterForwardsIsDialledAtTheAddressOfTheSession) {
  join("desk", "192.168.1.2", "203.0.113.1");
  join("attic", "192.168.1.3", "203.0.113.2");
  for (const CoordinatorMessage& message : told("attic")) {
    if (message.has_registered()) {
      EXPECT_TRUE(message.registered().behind_router());
    }
  }
  forward("attic", 4710);
  EXPECT_EQ(dialled, std::vector<std::string>{"203.0.113.2:4710"});
  EXPECT_TRUE(swarm.machine->route("desk", "attic").value().starts_with("relayed"));
  answer = false;  // a provider's router is before this one
  forward("attic", 4710);
  EXPECT_TRUE(swarm.machine->route("desk", "attic").value().starts_with("relayed"));
  answer = true;
  forward("attic", 4710);
  EXPECT_EQ(dialled.size(), 2U) << "it is not tried again";
  forward("attic", 4711);
  EXPECT_EQ(dialled.size(), 2U) << "nor another one for a while";
  swarm.clock.advance(std::chrono::minutes(10));
  forward("attic", 80);
  EXPECT_EQ(dialled.size(), 2U) << "nor a service's";
  forward("attic", 4711);
  EXPECT_EQ(swarm.machine->route("desk", "attic").value(), "203.0.113.2:4711");
  EXPECT_NE(swarm.machine->route("attic", "desk").value(), "") << "over the relay";
  forward("attic", 0);
  EXPECT_TRUE(swarm.machine->route("desk", "attic").value().starts_with("relayed"));
  // Who is at its own address has no use for it.
  join("hall", "203.0.113.3", "203.0.113.3");
  forward("hall", 4712);
  EXPECT_EQ(swarm.machine->route("desk", "hall").value().find("4712"), std::string::npos);
  forward("attic", 65'536);
  for (const NodeStatus& node : swarm.machine->status().nodes) {
    EXPECT_EQ(node.state == "lost", node.name == "attic") << node.name;
  }
}

// The other direction of the ring is a reverse route, at the same port.
TEST_F(MeetingsTest, OneRouterThatForwardsIsEnoughForBothDirections) {
  answer = true;
  join("attic", "192.168.1.3", "203.0.113.2");
  forward("attic", 4711);
  join("desk", "192.168.1.2", "203.0.113.1");
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 1U);
  EXPECT_EQ(next_address("desk"), "203.0.113.2:4711");
  EXPECT_TRUE(next_address("attic").starts_with("reverse")) << next_address("attic");
  const auto met = meets("desk");
  EXPECT_TRUE(std::ranges::any_of(
      met, [](const Route& route) { return route.address.text() == "203.0.113.2:4711"; }));
  EXPECT_TRUE(expected.empty()) << "nothing is relayed";
}

TEST_F(MeetingsTest, OnlyAPrivateAddressMayDifferFromTheSessions) {
  join("desk", "198.51.100.7", "203.0.113.1");
  ASSERT_TRUE(told("desk").back().has_refused());
  EXPECT_NE(told("desk").back().refused().reason().find("data_address"), std::string::npos);
  join("old", "192.168.1.2", "203.0.113.1", kProtocolMeet - 1);
  EXPECT_TRUE(told("old").back().has_refused()) << "an older worker cannot meet";
}

TEST_F(MeetingsTest, ALinkThatDoesNotOpenTakesTheNextRouteInTheNextPipeline) {
  join("desk", "10.0.0.1", "10.0.0.1");
  join("attic", "10.0.0.2", "10.0.0.2");
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 1U);
  EXPECT_EQ(next_address("desk"), "10.0.0.2:4000");
  fail("desk", "attic");
  EXPECT_EQ(parse_route(next_address("desk"))->kind, RouteKind::kReverse);
  EXPECT_EQ(meets("attic").back().address.text(), "10.0.0.1:4000") << "attic dials desk";
  fail("desk", "attic");
  EXPECT_EQ(parse_route(next_address("desk"))->kind, RouteKind::kRelayed);
}

TEST_F(MeetingsTest, ASideThatIsDialledExpectsTheTicketBeforeTheOtherOneIsTold) {
  join("desk", "10.0.0.1", "10.0.0.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  const auto kind = [&](const std::string& name) {
    std::string kinds;
    for (const CoordinatorMessage& message : told(name)) {
      if (message.has_assign()) kinds += "assign ";
      if (message.has_meet()) kinds += "meet ";
    }
    return kinds;
  };
  // attic opens the link from desk, and if it is the first stage that of the coordinator.
  const bool first = swarm.machine->status().pipelines.at(0).nodes[0] == "attic";
  EXPECT_EQ(kind("attic"), first ? "meet assign meet " : "assign meet ");
  EXPECT_EQ(kind("desk"), "assign ");
}

TEST_F(MeetingsTest, ALinkThatOpenedAndBrokeKeepsItsRoute) {
  join("desk", "10.0.0.1", "10.0.0.1");
  join("attic", "10.0.0.2", "10.0.0.2");
  fail("desk", "attic", false);
  EXPECT_EQ(next_address("desk"), "10.0.0.2:4000");
}

TEST_F(MeetingsTest, TheCoordinatorsOwnLinkThatDoesNotOpenIsOpenedByTheStage) {
  join("desk", "10.0.0.1", "10.0.0.1");
  join("attic", "10.0.0.2", "10.0.0.2");
  const auto kind = [&] { return parse_route(swarm.data.dialled.back().second)->kind; };
  EXPECT_EQ(kind(), RouteKind::kDirect);
  for (int i = 0; i < 400 && kind() == RouteKind::kDirect; ++i) {
    swarm.clock.advance(milliseconds(250));
    for (const auto& [each, link] : swarm.sessions) swarm.beat(each);
    swarm.machine->on_timer();
  }
  EXPECT_EQ(kind(), RouteKind::kReverse);
}

TEST_F(MeetingsTest, AFailureOfNoPipelineIsIgnored) {
  join("den", "10.0.0.1", "10.0.0.1");
  WorkerMessage message;
  message.mutable_stage_failed()->set_epoch(0);
  message.mutable_stage_failed()->set_peer("den");
  swarm.say(swarm.sessions["den"], message);
  EXPECT_EQ(status_of(swarm, "den").state, "free");
}

TEST_F(MeetingsTest, APingTakesARelayWhereItCannotDial) {
  join("desk", "10.0.0.1", "10.0.0.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  expected.clear();
  EXPECT_EQ(*swarm.machine->route("attic", "desk"), "10.0.0.1:4000");
  EXPECT_EQ(parse_route(*swarm.machine->route("desk", "attic"))->kind, RouteKind::kRelayed);
  ASSERT_EQ(expected.size(), 1U);
  EXPECT_EQ(expected[0].account, "desk");
  EXPECT_TRUE(expected[0].brief);
  EXPECT_EQ(meets("attic").back().ticket, expected[0].acceptor);
  EXPECT_EQ(swarm.machine->route("desk", "cellar").error().code, ErrorCode::kNotFound);
}

// Each makes another node dial.
TEST_F(MeetingsTest, TheRelayedLinksOfAMembersCommandsAreLimited) {
  join("desk", "10.0.0.1", "10.0.0.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  expected.clear();
  for (std::uint32_t i = 0; i < Meetings::kBriefOrders; ++i) {
    EXPECT_TRUE(swarm.machine->route("desk", "attic").ok()) << i;
  }
  const std::size_t orders = meets("attic").size();
  const auto refused = swarm.machine->route("desk", "attic");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoCapacity);
  EXPECT_NE(refused.error().message.find("Try again later"), std::string::npos);
  EXPECT_EQ(meets("attic").size(), orders);
  EXPECT_TRUE(swarm.machine->route("cellar", "attic").ok()) << "another member has its own";
  swarm.clock.advance(seconds(limits::kTicketSeconds));
  EXPECT_TRUE(swarm.machine->route("desk", "attic").ok());
}

struct PunchedMeetingsTest : MeetingsTest {
  PunchedMeetingsTest() : MeetingsTest(testing::swarm_options(2), true) {}
  RouteKind next_kind(const std::string& name) { return parse_route(next_address(name))->kind; }
};

TEST_F(PunchedMeetingsTest, BothEndsGetOneSecretEachForTheCoordinatorsPorts) {
  join("desk", "192.168.1.2", "203.0.113.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 1U);
  ASSERT_EQ(punched.size(), 2U) << "one link each way round the ring";
  EXPECT_TRUE(expected.empty()) << "nothing is relayed";
  for (const Expected& link : punched) {
    const std::string to = link.account == "desk" ? "attic" : "desk";
    EXPECT_EQ(next_address(link.account), punched_route(link.dialler, swarm.data.address(), 4001));
    const auto met = meets(to);
    EXPECT_TRUE(std::ranges::any_of(met, [&](const Route& route) {
      return route.text() == punched_route(link.acceptor, swarm.data.address(), 4001);
    }));
    EXPECT_NE(link.dialler, link.acceptor);
  }
  const std::vector<LinkRoute> routes = swarm.machine->status().pipelines[0].routes;
  for (const LinkRoute& route : routes) {
    EXPECT_EQ(route.kind, RouteKind::kPunched);
  }
}

TEST_F(PunchedMeetingsTest, ALinkThatIsNotPunchedIsRelayedInTheNextPipeline) {
  join("desk", "192.168.1.2", "203.0.113.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  EXPECT_EQ(next_kind("desk"), RouteKind::kPunched);
  fail("desk", "attic");
  EXPECT_EQ(next_kind("desk"), RouteKind::kRelayed);
  EXPECT_EQ(next_kind("attic"), RouteKind::kRelayed) << "the same two routers";
  EXPECT_EQ(punched.size(), 2U);
}

TEST_F(PunchedMeetingsTest, APunchedLinkThatBreaksIsPunchedAgain) {
  join("desk", "192.168.1.2", "203.0.113.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  fail("desk", "attic", false);
  EXPECT_EQ(next_kind("desk"), RouteKind::kPunched);
}

TEST_F(PunchedMeetingsTest, WithoutRoomALinkIsRelayed) {
  punches_full = true;
  join("desk", "192.168.1.2", "203.0.113.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  EXPECT_EQ(next_kind("desk"), RouteKind::kRelayed);
  EXPECT_EQ(expected.size(), 2U);
  const std::vector<LinkRoute> routes = swarm.machine->status().pipelines[0].routes;
  for (const LinkRoute& route : routes) {
    EXPECT_EQ(route.kind, RouteKind::kRelayed);
  }
}

TEST_F(PunchedMeetingsTest, AnOlderWorkerIsRelayed) {
  join("desk", "192.168.1.2", "203.0.113.1");
  join("attic", "192.168.1.2", "203.0.113.2", kProtocolPunch - 1);
  EXPECT_EQ(next_kind("desk"), RouteKind::kRelayed);
  EXPECT_TRUE(punched.empty());
}

TEST_F(PunchedMeetingsTest, AWorkerThatCanBeDialledIsNotPunched) {
  join("desk", "10.0.0.1", "10.0.0.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  EXPECT_EQ(next_kind("attic"), RouteKind::kDirect);
  EXPECT_EQ(next_kind("desk"), RouteKind::kReverse);
  EXPECT_TRUE(punched.empty());
}

TEST_F(PunchedMeetingsTest, APingPunchesAsItsWorkerDoes) {
  join("desk", "192.168.1.2", "203.0.113.1");
  join("attic", "192.168.1.2", "203.0.113.2");
  punched.clear();
  const Route route = parse_route(*swarm.machine->route("desk", "attic")).value();
  EXPECT_EQ(route.kind, RouteKind::kPunched);
  ASSERT_EQ(punched.size(), 1U);
  EXPECT_EQ(punched[0].account, "desk");
  EXPECT_EQ(route.ticket, punched[0].dialler);
  EXPECT_EQ(meets("attic").back().ticket, punched[0].acceptor);
  for (std::uint32_t i = 1; i < Meetings::kBriefOrders; ++i) {
    ASSERT_TRUE(swarm.machine->route("desk", "attic").ok());
  }
  EXPECT_EQ(swarm.machine->route("desk", "attic").error().code, ErrorCode::kNoCapacity);
  // A member without a worker has no router that is known.
  EXPECT_TRUE(swarm.machine->route("cellar", "attic").value().starts_with("relayed"));
}

// Two nodes behind routers that hold all layers, and one outside that relays and has no room.
struct MemberRelayTest : MeetingsTest {
  static CoordinatorOptions measuring() {
    CoordinatorOptions options = testing::swarm_options(0);
    options.placement.emplace();
    options.placement->model = {{100, 100, 100, 100}, 0, 0, 1'000, 0};
    return options;
  }
  MemberRelayTest() : MeetingsTest(measuring()) {
    join("attic", "192.168.1.2", "203.0.113.1");
    join("cellar", "203.0.113.9", "203.0.113.9", kProtocolVersion, 100);
    join("desk", "192.168.1.2", "203.0.113.2");
    for (const auto& [name, link] : swarm.sessions) {
      WorkerMessage message;
      message.mutable_measured()->set_batch_rows(placement::Problem().batch_rows);
      message.mutable_measured()->set_layer_seconds(1e-3);
      message.mutable_measured()->set_layer_batch_seconds(2e-3);
      message.mutable_measured()->set_memory_bytes(name == "cellar" ? 50 : 300);
      swarm.say(link, message);
    }
  }
  // Each link that is to be measured is.
  void measure_until_placed() {
    std::map<std::string, std::size_t> read;
    for (int i = 0; i < 200 && swarm.machine->status().pipelines.empty(); ++i) {
      swarm.clock.advance(milliseconds(250));
      for (const auto& [name, link] : swarm.sessions) swarm.beat(name);
      swarm.machine->on_timer();
      for (const auto& [name, link] : swarm.sessions) {
        const auto all = told(name);
        for (std::size_t& at = read[name]; at < all.size(); ++at) {
          if (all[at].has_probe()) swarm.say(link, probed(all[at].probe().node()));
        }
      }
    }
    ASSERT_EQ(swarm.machine->status().pipelines.size(), 1U) << swarm.machine->status().missing;
  }
  static WorkerMessage probed(const std::string& to) {
    WorkerMessage message;
    message.mutable_probed()->set_node(to);
    message.mutable_probed()->set_round_trip_seconds(2e-4);
    message.mutable_probed()->set_to_bytes_per_second(1e8);
    message.mutable_probed()->set_from_bytes_per_second(1e8);
    return message;
  }
  // The relay of the links between attic and desk.
  std::string relay() {
    const auto routes = swarm.machine->status().pipelines.at(0).routes;
    EXPECT_EQ(routes.size(), 2U);
    for (const LinkRoute& route : routes) {
      EXPECT_EQ(route.kind, RouteKind::kRelayed);
      EXPECT_EQ(route.relay, routes[0].relay);
    }
    return routes[0].relay;
  }
};

TEST_F(MemberRelayTest, ARelayWhoseLinksBreakAgainAndAgainIsTheLastChoice) {
  measure_until_placed();
  EXPECT_EQ(relay(), "cellar");
  std::size_t forwards = 0;
  for (const CoordinatorMessage& message : told("cellar")) forwards += message.has_forward();
  EXPECT_GE(forwards, 2U) << "one for each link of the ring";
  fail("desk", "attic", false);
  EXPECT_EQ(relay(), "cellar") << "an end may have been the cause";
  fail("attic", "desk", false);
  EXPECT_EQ(relay(), "") << "the coordinator relays";
  full = true;
  fail("desk", "attic", false);
  EXPECT_EQ(relay(), "cellar") << "no other relay has room";
}

TEST_F(MemberRelayTest, ARelayOverWhichNoLinkOpensIsAvoidedForAWhile) {
  measure_until_placed();
  EXPECT_EQ(relay(), "cellar");
  fail("desk", "attic");
  EXPECT_EQ(relay(), "");
  swarm.clock.advance(std::chrono::minutes(10));
  for (const auto& [name, link] : swarm.sessions) swarm.beat(name);
  EXPECT_EQ(parse_route(*swarm.machine->route("desk", "attic"))->address.text(),
            "203.0.113.9:4000");
}

}  // namespace
}  // namespace hearth::coordinator

// Links to workers that cannot be dialled: what each side is told.
#include "coordinator/machine/meetings.h"

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
  Swarm swarm{options()};

  CoordinatorOptions options() {
    CoordinatorOptions options = testing::swarm_options(2);
    options.relay = [this](const Ticket& dialler, const Ticket& acceptor,
                           const std::string& account, bool brief) -> Status {
      if (full) return Error{ErrorCode::kNoCapacity, "the relay is full"};
      expected.push_back({dialler, acceptor, account, brief});
      return ok_status();
    };
    return options;
  }
  // A worker whose router shows it as `seen`.
  void join(const std::string& name, const std::string& own, const std::string& seen,
            std::uint32_t protocol = kProtocolVersion) {
    WorkerMessage message;
    *message.mutable_register_() = testing::worker(name);
    message.mutable_register_()->set_data_address(own + ":4000");
    message.mutable_register_()->set_protocol_version(protocol);
    const LinkId link = swarm.control.incoming();
    swarm.control.hosts[link] = seen;
    swarm.sessions[name] = link;
    swarm.say(link, message);
  }
  std::vector<CoordinatorMessage> told(const std::string& name) {
    return swarm.told(swarm.sessions[name]);
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
  for (const LinkRoute& route : swarm.machine->status().pipelines[0].routes) {
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

}  // namespace
}  // namespace hearth::coordinator

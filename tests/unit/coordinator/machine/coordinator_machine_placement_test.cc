// What a coordinator that places by measurement asks, hears and forms.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "coordinator/coordinator.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;

struct CoordinatorPlacementTest : ::testing::Test {
  static CoordinatorOptions options() {
    CoordinatorOptions options = testing::swarm_options(0);
    options.placement.emplace();
    options.placement->model = {{100, 100, 100, 100}, 0, 0, 1'000, 0};
    return options;
  }

  testing::FakeClock clock;
  SeededRandom random{1};
  testing::FakeTransport control;
  testing::FakeTransport data;
  std::unique_ptr<Coordinator> machine =
      Coordinator::start(options(), clock, random, control, data);

  void say(LinkId link, const WorkerMessage& message) {
    Bytes payload(message.ByteSizeLong());
    message.SerializeToArray(payload.data(), static_cast<int>(payload.size()));
    control.receive(link, FrameType::kControl, std::move(payload));
  }
  LinkId join(const std::string& name) {
    const LinkId link = control.incoming();
    WorkerMessage message;
    *message.mutable_register_() = testing::worker(name);
    say(link, message);
    return link;
  }
  static WorkerMessage measured(double layer_seconds, std::uint64_t memory) {
    WorkerMessage message;
    auto& body = *message.mutable_measured();
    body.set_batch_rows(placement::Problem().batch_rows);
    body.set_layer_seconds(layer_seconds);
    body.set_layer_batch_seconds(2 * layer_seconds);
    body.set_memory_bytes(memory);
    return message;
  }
  std::vector<CoordinatorMessage> heard(LinkId link) {
    std::vector<CoordinatorMessage> messages;
    for (const Frame& frame : control.sent[link]) {
      CoordinatorMessage& message = messages.emplace_back();
      message.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
    }
    return messages;
  }
  CoordinatorMessage last(LinkId link) {
    const auto all = heard(link);
    return all.empty() ? CoordinatorMessage() : all.back();
  }
  static WorkerMessage probed(const std::string& to) {
    WorkerMessage message;
    auto& body = *message.mutable_probed();
    body.set_node(to);
    body.set_round_trip_seconds(2e-4);
    body.set_to_bytes_per_second(1e8);
    body.set_from_bytes_per_second(1e8);
    return message;
  }
  // Time passes, and every node beats.
  void pass(Duration pause, const std::vector<LinkId>& links) {
    clock.advance(pause);
    WorkerMessage beat;
    beat.mutable_heartbeat();
    for (const LinkId link : links) say(link, beat);
    machine->on_timer();
  }
};

TEST_F(CoordinatorPlacementTest, MeasuresNodesAndWaysAndThenPlaces) {
  const LinkId a = join("a");
  const LinkId b = join("b");
  EXPECT_TRUE(last(a).registered().measure());
  machine->on_timer();
  EXPECT_FALSE(last(a).has_probe()) << "not before it has measured itself";
  say(a, measured(1e-3, 300));
  say(b, measured(1e-3, 300));
  pass(std::chrono::milliseconds(100), {a, b});
  ASSERT_TRUE(last(a).has_probe());
  EXPECT_EQ(last(a).probe().node(), "b");
  EXPECT_EQ(last(a).probe().address(), "b:data");
  say(a, probed("b"));
  EXPECT_FALSE(last(b).has_assign());
  for (int i = 0; i < 12; ++i) pass(std::chrono::milliseconds(250), {a, b});
  ASSERT_TRUE(last(a).has_assign()) << machine->status().missing;
  EXPECT_EQ(last(a).assign().stages(), 2U);
  EXPECT_EQ(last(a).assign().layers().end(), 2U) << "equal nodes get equal shares";
  EXPECT_EQ(last(b).assign().layers().begin(), 2U);
  const SwarmStatus status = machine->status();
  ASSERT_EQ(status.links.size(), 2U);
  EXPECT_EQ(status.nodes[0].measured->layer.one, 1e-3);
}

TEST_F(CoordinatorPlacementTest, FiguresThatNoMachineHasPlaceItNowhere) {
  const LinkId a = join("a");
  for (const double bad :
       {0.0, -1.0, std::nan(""), 1e300, std::numeric_limits<double>::infinity()}) {
    say(a, measured(bad, 1'000));
    EXPECT_FALSE(machine->status().nodes[0].measured) << bad;
  }
  WorkerMessage other = measured(1e-3, 1'000);
  other.mutable_measured()->set_batch_rows(1'000'000);
  say(a, other);
  EXPECT_FALSE(machine->status().nodes[0].measured);
  for (int i = 0; i < 120; ++i) pass(std::chrono::milliseconds(250), {a});
  EXPECT_FALSE(last(a).has_assign());
  EXPECT_NE(machine->status().missing.find("no node has measured itself"), std::string::npos)
      << machine->status().missing;
  say(a, measured(1e-3, 1'000));
  pass(std::chrono::milliseconds(250), {a});
  EXPECT_TRUE(last(a).has_assign());
}

TEST_F(CoordinatorPlacementTest, TheWaysOfWhoMeasuresSlowlyAreWaitedForAsWell) {
  const LinkId a = join("a");
  const LinkId b = join("b");
  say(a, measured(1e-3, 300));
  for (int i = 0; i < 100; ++i)
    pass(std::chrono::milliseconds(250), {a, b});  // a alone is too small
  say(b, measured(2e-3, 1'000));
  pass(std::chrono::milliseconds(250), {a, b});
  ASSERT_TRUE(last(a).has_probe());
  EXPECT_FALSE(last(b).has_assign()) << "it would be alone";
  say(a, probed("b"));
  pass(std::chrono::milliseconds(250), {a, b});
  ASSERT_TRUE(last(a).has_assign()) << machine->status().missing;
  EXPECT_EQ(last(a).assign().stages(), 2U);
}

TEST_F(CoordinatorPlacementTest, APausedNodeIsNeitherProbedNorPlaced) {
  const LinkId a = join("a");
  const LinkId b = join("b");
  say(a, measured(1e-3, 1'000));
  say(b, measured(1e-3, 1'000));
  WorkerMessage paused;
  write_away({false, 0, "a game"}, *paused.mutable_heartbeat()->mutable_away());
  say(a, paused);
  clock.advance(std::chrono::seconds(1));
  for (int i = 0; i < 16; ++i) {
    say(a, paused);
    pass(std::chrono::milliseconds(250), {b});
  }
  EXPECT_FALSE(last(a).has_probe() || last(b).has_probe());
  EXPECT_FALSE(last(a).has_assign());
  EXPECT_TRUE(last(b).has_assign()) << "it holds the model alone; " << machine->status().missing;
  pass(std::chrono::milliseconds(250), {a, b});  // without a word of being away
  EXPECT_TRUE(last(a).has_probe());
}

TEST_F(CoordinatorPlacementTest, WhoComesBackNeedNotMeasureAgain) {
  const LinkId a = join("a");
  say(a, measured(1e-3, 1'000));
  control.lose(a);
  const LinkId again = join("a");
  EXPECT_FALSE(heard(again).front().registered().measure());
  EXPECT_TRUE(machine->status().nodes[0].measured);
  control.lose(again);
  const LinkId changed = control.incoming();
  WorkerMessage message;
  *message.mutable_register_() = testing::worker("a");
  message.mutable_register_()->set_threads(7);
  say(changed, message);
  EXPECT_TRUE(heard(changed).front().registered().measure()) << "another machine";
  EXPECT_FALSE(machine->status().nodes[0].measured);
}

TEST_F(CoordinatorPlacementTest, APairThatOneLeftIsNotWaitedFor) {
  const LinkId a = join("a");
  const LinkId b = join("b");
  const LinkId c = join("c");
  for (const LinkId link : {a, b, c}) say(link, measured(1e-3, 300));
  machine->on_timer();
  ASSERT_EQ(last(a).probe().node(), "b");
  control.lose(b);
  machine->on_timer();
  EXPECT_EQ(last(a).probe().node(), "c");
}

struct ManyWorkersTest : CoordinatorPlacementTest {
  std::map<std::string, LinkId> links;
  std::map<std::string, std::size_t> read;  // of the messages to each

  void add(const std::string& name) {
    links[name] = join(name);
    say(links[name], measured(1e-3, 200));
  }
  // Every node beats, and measures what it is asked for.
  void pass_all(Duration pause) {
    std::vector<LinkId> all;
    for (const auto& [name, link] : links) all.push_back(link);
    pass(pause, all);
    for (bool asked = true; asked;) {
      asked = false;
      for (const auto& [name, link] : links) {
        const auto messages = heard(link);
        for (std::size_t& at = read[name]; at < messages.size(); ++at) {
          if (!messages[at].has_probe()) continue;
          say(link, probed(messages[at].probe().node()));
          asked = true;
        }
      }
      machine->on_timer();
    }
  }
  std::map<std::uint64_t, std::vector<std::string>> pipelines() const {
    std::map<std::uint64_t, std::vector<std::string>> all;
    for (const PipelineStatus& one : machine->status().pipelines) all[one.epoch.value] = one.nodes;
    return all;
  }
};

TEST_F(ManyWorkersTest, HaveOneCutAndWhoComesWaitsUntilItIsWanted) {
  for (int i = 10; i < 28; ++i) add("n" + std::to_string(i));
  for (int i = 0; i < 14; ++i) pass_all(std::chrono::milliseconds(250));
  const auto before = pipelines();
  ASSERT_EQ(before.size(), 9U) << machine->status().missing;
  for (const auto& [epoch, nodes] : before) {
    ASSERT_EQ(nodes.size(), 2U);
    EXPECT_EQ(last(links[nodes[0]]).assign().layers().end(), 2U);
    EXPECT_EQ(last(links[nodes[1]]).assign().layers().begin(), 2U);
  }
  add("late");
  for (int i = 0; i < 20; ++i) pass_all(std::chrono::milliseconds(250));
  EXPECT_EQ(pipelines(), before);
  EXPECT_FALSE(last(links["late"]).has_assign());
  for (const NodeStatus& node : machine->status().nodes) {
    if (node.name == "late") {
      EXPECT_NE(node.spare.find("until a pipeline loses a stage"), std::string::npos) << node.spare;
    }
  }
  const std::vector<std::string> hit = before.begin()->second;
  control.lose(links[hit[0]]);
  links.erase(hit[0]);
  pass_all(std::chrono::milliseconds(250));
  auto after = before;
  after.erase(before.begin()->first);
  after[pipelines().rbegin()->first] = {"late", hit[1]};
  EXPECT_EQ(pipelines(), after) << "the others run as they did";
  EXPECT_EQ(last(links["late"]).assign().layers().end(), 2U);
}

TEST_F(CoordinatorPlacementTest, WhoIsNotAskedAndWhatNobodyAskedForDoesNothing) {
  const LinkId a = join("a");
  say(a, probed("somebody"));
  EXPECT_EQ(machine->status().nodes[0].state, "free");
  EXPECT_TRUE(machine->status().links.empty());
}

}  // namespace
}  // namespace hearth::coordinator

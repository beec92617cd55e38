// CoordinatorOptions::ranks 0: the search for a placement decides which stages are groups.
#include <gtest/gtest.h>

#include "coordinator/pipelines/pipelines.h"
#include "coordinator/pipelines/placing.h"
#include "proto/frame.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

// Eight layers of 100 bytes; nodes of a millisecond a layer, with one exchange for each layer.
struct PlacingGroupsTest : ::testing::Test {
  PlacingGroupsTest() : options(testing::swarm_options(0)) {
    options.layers = 8;
    options.ranks = 0;
    options.placement.emplace();
    options.placement->model = {std::vector<std::uint64_t>(8, 100), 0, 0, 1'000, 0};
    options.placement->model.exchanges = {1, 0, 0, 0.0};
    options.placement->objective = placement::Objective::kAuto;
  }

  CoordinatorOptions options;
  testing::FakeClock clock;
  Registry registry{options, clock};
  Pipelines pipelines{options, clock, registry};
  std::uint64_t next_link = 1;

  Node& add(const std::string& name, std::uint64_t memory = 800, double layer = 1e-3) {
    auto body = testing::worker(name);
    body.set_layers(8);
    Node& node = **registry.add(LinkId(next_link++), body);
    node.status.measured = placement::Node{name, 0.0, {layer, 2.0 * layer}, {}, memory};
    node.status.rank_address = "10.0.0." + std::to_string(next_link) + ":1000";
    return node;
  }
  // Every link, with this delay.
  void settle(double delay) {
    while (const auto way = pipelines.ways().next(registry.all())) {
      control::v1::Probed probed;
      probed.set_node(way->to);
      probed.set_round_trip_seconds(2.0 * delay);
      probed.set_to_bytes_per_second(1e9);
      probed.set_from_bytes_per_second(1e9);
      pipelines.ways().take(way->from, probed);
    }
    pass(3);
  }
  void pass(int seconds) {
    clock.advance(std::chrono::seconds(seconds));
    for (const Node* node : registry.all()) registry.find(node->link)->last_heard = clock.now();
  }
  // "a+b 0-8; " of the next pipeline; empty: none forms.
  std::string formed() {
    last = pipelines.form();
    std::string text;
    if (last == nullptr) return text;
    for (const Member& member : last->members) {
      text += member.node;
      for (const Rank& rank : member.others) text += "+" + rank.node;
      text += " " + std::to_string(member.layers.begin) + "-" + std::to_string(member.layers.end) +
              "; ";
    }
    return text;
  }
  void load(const Pipeline& pipeline) {
    for (const std::string& name : pipeline.nodes()) registry.find(name)->loaded = true;
  }
  Pipeline* last = nullptr;
};

TEST_F(PlacingGroupsTest, NearNodesFormAGroupAndFarOnesDoNot) {
  add("a");
  add("b");
  settle(1e-4);
  EXPECT_EQ(formed(), "a+b 0-8; ");
  EXPECT_EQ(last->members.front().part, 128u);
  EXPECT_EQ(last->members.front().others.front().part, 128u);
  EXPECT_EQ(last->members.front().rank_address, "10.0.0.2:1000");
  EXPECT_EQ(registry.find("b")->status.rank, 1u);
  EXPECT_EQ(registry.find("b")->status.ranks, 2u);
  const auto assign = pipelines.assign_message(*last, {0, 1}, "coordinator:1");
  EXPECT_EQ(assign.group_size(), 2);
  EXPECT_EQ(assign.rank(), 1u);
}

TEST_F(PlacingGroupsTest, FarNodesAreStages) {
  add("a", 400);
  add("b", 400);
  settle(2e-3);
  EXPECT_EQ(formed(), "a 0-4; b 4-8; ");
  EXPECT_TRUE(last->members.front().others.empty());
  EXPECT_EQ(registry.find("b")->status.ranks, 1u);
}

TEST_F(PlacingGroupsTest, TheStepsInFlightFollowTheLinks) {
  add("a", 400);
  add("b", 400);
  settle(40e-3);  // ten times what a stage takes of one row
  EXPECT_EQ(formed(), "a 0-4; b 4-8; ");
  ASSERT_TRUE(last->times.has_value());
  EXPECT_NEAR(last->times->ring.one, 2 * 4e-3 + 2 * 40e-3, 1e-4);
  ASSERT_EQ(last->times->parts.size(), 3u);
  EXPECT_DOUBLE_EQ(last->times->parts.back().batch, 8e-3);
  for (const std::uint32_t stage : {0u, 1u}) {  // each bounds what it takes
    const auto assign = pipelines.assign_message(*last, {stage, 0}, "coordinator:1");
    EXPECT_EQ(assign.batches_in_flight(), 23u);
    EXPECT_DOUBLE_EQ(assign.times().ring_seconds(), last->times->ring.one);
    EXPECT_DOUBLE_EQ(assign.times().part_batch_seconds(2), 8e-3);
  }
  registry.find("b")->status.protocol = kProtocolStepTimes - 1;
  const auto older = pipelines.assign_message(*last, {0, 0}, "coordinator:1");
  EXPECT_EQ(older.batches_in_flight(), 3u);
  EXPECT_FALSE(older.has_times());
}

TEST_F(PlacingGroupsTest, UnmeasuredStepsAreAsManyAsStagesAndOne) {
  options.ranks = 1;
  options.placement->objective = placement::Objective::kAuto;
  add("a", 400);
  add("b", 400);
  pass(20);
  EXPECT_EQ(formed(), "a 0-4; b 4-8; ");
  EXPECT_FALSE(last->times.has_value());
  const auto assign = pipelines.assign_message(*last, {0, 0}, "coordinator:1");
  EXPECT_EQ(assign.batches_in_flight(), 3u);
  EXPECT_FALSE(assign.has_times());
}

TEST_F(PlacingGroupsTest, OffFormsNone) {
  options.ranks = 1;
  add("a");
  add("b");
  settle(1e-4);
  EXPECT_EQ(formed(), "a 0-8; ");
}

TEST_F(PlacingGroupsTest, ItWaitsForTheLinksAndGuessesNone) {
  add("a");
  add("b");
  pass(3);
  EXPECT_EQ(formed(), "");
  EXPECT_EQ(pipelines.placing().waiting(), "the links between the nodes are being measured");
  pass(17);
  EXPECT_EQ(formed(), "a 0-8; ") << "no link was measured in time";
}

TEST_F(PlacingGroupsTest, WhoCannotBeARankIsNone) {
  add("a");
  add("b").status.rank_address.clear();  // a GPU, or a family that groups do not compute
  settle(1e-4);
  EXPECT_EQ(formed(), "a 0-8; ");
}

TEST_F(PlacingGroupsTest, AGroupHasOneOwnerAndOneBuild) {
  add("a").owner = "ann";
  add("b").owner = "bob";
  add("c").owner = "ann";
  registry.find("a")->status.build = registry.find("c")->status.build = "one";
  settle(1e-4);
  EXPECT_EQ(formed(), "a+c 0-8; ");
  pipelines.end(last->epoch, {});
  registry.find("c")->status.build = "another";
  registry.find("c")->since += std::chrono::seconds(1);  // another session
  pass(3);
  EXPECT_EQ(formed(), "a 0-8; ");
}

TEST_F(PlacingGroupsTest, ProcessorsOfOneMachineFormNoGroup) {
  add("a").status.data_address = "10.0.0.1:1";
  add("b").status.data_address = "10.0.0.1:2";
  settle(1e-4);
  EXPECT_EQ(formed(), "a 0-8; ") << "each was measured while the other rested";
  pipelines.end(last->epoch, {});
  registry.find("a")->status.device = registry.find("b")->status.device = "EMULATED";
  registry.find("a")->since += std::chrono::seconds(1);  // another session
  EXPECT_EQ(formed(), "a+b 0-8; ");
}

TEST_F(PlacingGroupsTest, ALostRankIsReplaced) {
  for (const char* name : {"a", "b", "c"}) add(name);
  registry.find("c")->status.measured->layer = {1e-2, 2e-2};
  settle(1e-4);
  ASSERT_EQ(formed(), "a+b 0-8; ");
  load(*last);
  registry.find("c")->status.measured->layer = {1e-3, 2e-3};
  pipelines.end(last->epoch, {});
  registry.lose(*registry.find("b"));
  EXPECT_EQ(formed(), "a+c 0-8; ");
}

TEST_F(PlacingGroupsTest, ALoadedGroupKeepsItsStage) {
  for (const char* name : {"a", "b", "c", "d"}) add(name, 250);
  settle(3e-4);
  ASSERT_EQ(formed(), "a+b+c+d 0-8; ");
  load(*last);
  pipelines.end(last->epoch, {});
  add("0", 250);
  settle(3e-4);
  EXPECT_EQ(formed(), "a+b+c+d 0-8; ") << "five would be quicker, by less than a tenth";
  for (const std::string& name : last->nodes()) EXPECT_TRUE(registry.find(name)->loaded) << name;
}

TEST_F(PlacingGroupsTest, AGroupReplacesRunningStagesWhereThatGains) {
  add("a");
  settle(1e-4);
  ASSERT_EQ(formed(), "a 0-8; ");
  load(*last);
  last->serving = true;
  add("b");
  settle(1e-4);
  const auto better = pipelines.better();
  ASSERT_TRUE(better);
  EXPECT_NE(better->gain.find("one stream 196 tokens/s instead of 125"), std::string::npos)
      << better->gain;
  pipelines.adopt(*better);
  pipelines.end(last->epoch, {});
  EXPECT_EQ(formed(), "a+b 0-8; ");
  load(*last);
  last->serving = true;
  EXPECT_FALSE(pipelines.better()) << "it is the best one";
}

TEST_F(PlacingGroupsTest, TheStatusNamesTheIslands) {
  const Node& a = add("a");
  const Node& b = add("b");
  const Node& c = add("c");
  registry.find("c")->status.rank_address.clear();
  settle(1e-4);
  EXPECT_EQ(pipelines.placing().islands_of({&a, &b, &c}),
            (std::vector<std::uint32_t>{0, 0, placement::kNoIsland}));
  options.ranks = 1;
  EXPECT_TRUE(pipelines.placing().islands_of({&a, &b, &c}).empty());
}

}  // namespace
}  // namespace hearth::coordinator

#include "coordinator/pipelines/range_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "coordinator/pipelines/placing.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

// Eight layers of 100 bytes; 24 nodes that hold three to four layers each, a third of them quick, a
// third half and a third a quarter as quick. What forms a pipeline is taken, as by a coordinator.
struct RangePoolTest : ::testing::Test {
  RangePoolTest() : options(testing::swarm_options(0)) {
    options.layers = 8;
    options.placement.emplace();
    options.placement->model = {std::vector<std::uint64_t>(8, 100), 0, 0, 1'000, 0};
    options.placement->objective = placement::Objective::kThroughput;
    for (int i = 0; i < 24; ++i) add("n" + std::to_string(100 + i), 1e-3 * (1 << i % 3));
    settle();
  }

  CoordinatorOptions options;
  testing::FakeClock clock;
  Registry registry{options, clock};
  LinkBook links{clock};
  Placing placing{options, clock, links};
  std::uint64_t next_link = 1;
  std::uint64_t next_epoch = 1;
  std::map<std::uint64_t, Placed> running;  // by epoch

  Node& add(const std::string& name, double layer, std::uint64_t memory = 420) {
    auto body = testing::worker(name);
    body.set_layers(8);
    Node& node = **registry.add(LinkId(next_link++), body);
    node.status.measured = placement::Node{name, 0.0, {layer, 2.0 * layer}, {}, memory};
    return node;
  }
  void settle() {
    while (const auto way = links.next(registry.all())) {
      control::v1::Probed probed;
      probed.set_node(way->to);
      probed.set_round_trip_seconds(2e-4);
      probed.set_to_bytes_per_second(1e9);
      probed.set_from_bytes_per_second(1e9);
      links.take(way->from, probed);
    }
    clock.advance(std::chrono::seconds(3));
    for (const Node* node : registry.all()) registry.find(node->link)->last_heard = clock.now();
  }
  // How many pipelines come to be of the nodes that are free now.
  std::size_t form() {
    std::size_t formed = 0;
    while (const auto placed = placing.choose(registry.free_nodes(), !running.empty())) {
      const Epoch epoch(next_epoch++);
      std::uint32_t begin = 0;
      for (std::uint32_t i = 0; i < placed->nodes.size(); ++i) {
        EXPECT_EQ(placed->layers[i].begin, begin);
        begin = placed->layers[i].end;
        registry.assign(*placed->nodes[i], epoch, i, placed->layers[i]);
        placed->nodes[i]->loaded = true;
        placed->nodes[i]->state = Node::State::kServing;
      }
      EXPECT_EQ(begin, 8U);
      running[epoch.value] = *placed;
      ++formed;
    }
    return formed;
  }
  // A node of a pipeline is lost, and the others are free.
  std::string lose(std::uint64_t epoch, std::size_t stage) {
    const Placed placed = running[epoch];
    running.erase(epoch);
    for (Node* node : placed.nodes) registry.free(*node, Duration::zero());
    registry.lose(*placed.nodes[stage]);
    return placed.nodes[stage]->status.name;
  }
  std::set<LayerRange, bool (*)(const LayerRange&, const LayerRange&)> ranges() const {
    std::set<LayerRange, bool (*)(const LayerRange&, const LayerRange&)> all(
        [](const LayerRange& a, const LayerRange& b) {
          return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
        });
    for (const auto& [epoch, placed] : running) {
      for (const LayerRange layers : placed.layers) all.insert(layers);
    }
    return all;
  }
};

TEST_F(RangePoolTest, AllPipelinesHaveOneCutAndNoNodeIsInTwo) {
  const std::size_t formed = form();
  EXPECT_GE(formed, 6U);
  EXPECT_EQ(ranges().size(), running.begin()->second.layers.size());
  std::set<const Node*> nodes;
  for (const auto& [epoch, placed] : running) {
    for (const Node* node : placed.nodes) EXPECT_TRUE(nodes.insert(node).second);
  }
}

TEST_F(RangePoolTest, WhoComesWaitsInThePoolUntilThereIsOneOfEveryRange) {
  form();
  const auto before = ranges();
  const std::size_t stages = running.begin()->second.layers.size();
  const std::size_t waiting = registry.free_nodes().size();
  ASSERT_GT(stages, 1U);
  for (std::size_t i = waiting; i + 1 < stages; ++i) {
    add("new" + std::to_string(i), 1e-3);
    settle();
    EXPECT_EQ(form(), 0U);
    EXPECT_NE(placing.why_spare("new" + std::to_string(i)).find("until a pipeline loses a stage"),
              std::string::npos);
  }
  add("one more", 1e-3);
  settle();
  EXPECT_EQ(form(), 1U);
  EXPECT_EQ(ranges(), before);
}

TEST_F(RangePoolTest, WhoHasLoadedTheLostRangeStandsIn) {
  form();
  const std::uint64_t first = running.begin()->first;
  const std::uint64_t second = std::next(running.begin())->first;
  const std::size_t stages = running[first].layers.size();
  ASSERT_GT(stages, 1U);
  for (Node* node : registry.free_nodes()) registry.lose(*node);
  lose(first, 0);
  EXPECT_EQ(form(), 0U) << "no node is free for the first range";
  const Placed left = running[second];
  lose(second, 1);
  ASSERT_EQ(form(), 1U);
  const Placed& again = running.rbegin()->second;
  EXPECT_EQ(again.nodes[0], left.nodes[0]) << "the only one that is left with it";
  for (std::size_t i = 0; i < stages; ++i) {
    EXPECT_EQ(again.layers[i], left.layers[i]) << "no node loads anything";
  }
}

TEST_F(RangePoolTest, OneMuchSlowerThanThePlanIsNotTakenBesideOthers) {
  form();
  for (Node* node : registry.free_nodes()) registry.lose(*node);
  add("snail", 1.0);
  settle();
  lose(running.begin()->first, 0);
  EXPECT_EQ(form(), 0U) << "nodes that others will want would wait for it";
  add("quick", 1e-3);
  settle();
  ASSERT_EQ(form(), 1U);
  for (const Node* node : running.rbegin()->second.nodes) EXPECT_NE(node->status.name, "snail");
}

TEST_F(RangePoolTest, WhoWaitsWithAnotherRangeLoadsTheOneThatIsWanted) {
  form();
  for (Node* node : registry.free_nodes()) registry.lose(*node);
  const std::size_t stages = running.begin()->second.layers.size();
  // Of as many pipelines the first stage is lost, so that all others have too many of theirs.
  for (std::size_t i = 0; i < stages; ++i) lose(running.begin()->first, 0);
  const std::size_t beside = running.size();
  EXPECT_EQ(form(), stages - 1) << "one moves to the first range of each";
  EXPECT_EQ(running.size(), beside + stages - 1);
}

TEST_F(RangePoolTest, WhatIsSureIsOfThePlansRanges) {
  form();
  const Placed placed = running.begin()->second;
  std::vector<Node*> nodes = registry.free_nodes();
  nodes.insert(nodes.end(), placed.nodes.begin(), placed.nodes.end());
  EXPECT_EQ(placing.sure(nodes).size(), placed.nodes.size());
}

TEST_F(RangePoolTest, TheCutOutlivesItsPipelines) {
  form();
  const auto before = ranges();
  while (!running.empty()) lose(running.begin()->first, 0);
  EXPECT_GT(form(), 0U);
  EXPECT_EQ(ranges(), before) << "those who are left make pipelines of the same ranges";
}

}  // namespace
}  // namespace hearth::coordinator

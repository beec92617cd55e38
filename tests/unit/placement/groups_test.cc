// Groups of nodes in a placement: their figures, and the search against every pipeline of nodes and
// groups, tried.
#include "placement/groups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/limits.h"
#include "placement/parts.h"
#include "placement/plan.h"
#include "placement/search.h"
#include "tests/unit/placement/instances.h"

namespace hearth::placement {
namespace {

using instances::below;
using instances::unit;

// `layers` of 100 bytes; equal nodes of a millisecond a layer, all in one island with equal links.
Problem swarm_of(std::uint32_t nodes, std::uint32_t layers, const Link& link) {
  Problem problem;
  problem.model.layer_bytes.assign(layers, 100);
  problem.model.activation_bytes = 1'000;
  problem.model.exchanges = {4, 10'000, 0, 0.0};
  for (std::uint32_t i = 0; i < nodes; ++i) {
    problem.nodes.push_back(
        {"n" + std::to_string(i), 0.0, {1e-3, 2e-3}, {}, std::uint64_t{100} * layers});
  }
  problem.links.assign(std::size_t{nodes} * nodes, link);
  problem.islands.assign(nodes, 0);
  problem.objective = Objective::kAuto;
  return problem;
}

constexpr Link kNear{1e-5, 1e10};
constexpr Link kFar{5e-4, 1e8};

std::string text(const std::vector<Stage>& stages) {
  std::string text;
  for (const Stage& stage : stages) {
    std::string nodes;
    stage.for_each_node(
        [&](std::uint32_t node) { nodes += (nodes.empty() ? "" : "+") + std::to_string(node); });
    text += nodes + ": " + std::to_string(stage.layers.begin) + "-" +
            std::to_string(stage.layers.end) + "; ";
  }
  return text;
}

std::string placed(const Problem& problem) {
  const auto stages = place(problem);
  return stages.ok() ? text(*stages) : stages.error().message;
}

TEST(GroupNode, AddsTheExchangesToTheSlowestRank) {
  Problem problem = swarm_of(2, 8, {1e-4, 1e6});
  problem.nodes[1].layer = {4e-3, 8e-3};
  problem.nodes[1].head = {1e-3, 2e-3};
  problem.nodes[1].memory_bytes = 200;
  problem.nodes[0].kv_budget_bytes = 300;
  problem.model.exchanges = {3, 1'000, 4'000, 0.2};
  const Node node = group_node(problem, {{0, 192}, {1, 64}});
  // The second rank computes 0.2 + 0.8 / 4 of each layer. The first one sends 3/4 of the bytes.
  const double exchange = 3 * 1e-4 + 0.75 * 1'000 / 1e6;
  EXPECT_DOUBLE_EQ(node.layer.one, 0.4 * 4e-3 + exchange);
  EXPECT_DOUBLE_EQ(node.layer.batch, 0.4 * 8e-3 + 3 * 1e-4 + 16 * 0.75 * 1'000 / 1e6);
  EXPECT_DOUBLE_EQ(node.head.one, 0.25 * 1e-3 + 1e-4 + 0.25 * 4'000 / 1e6);
  EXPECT_DOUBLE_EQ(node.step_seconds, 2e-4);
  EXPECT_EQ(node.memory_bytes, 500u);
  EXPECT_EQ(node.kv_budget_bytes, 400u);
}

TEST(GroupNode, OnlyLinkedNodesOfOneIslandFormAGroup) {
  Problem problem = swarm_of(3, 8, kNear);
  EXPECT_TRUE(may_form_group(problem, {0, 1, 2}));
  EXPECT_FALSE(may_form_group(problem, {0}));
  problem.islands[2] = 1;
  EXPECT_TRUE(may_form_group(problem, {0, 1}));
  EXPECT_FALSE(may_form_group(problem, {0, 2}));
  problem.links[1] = {};
  EXPECT_FALSE(may_form_group(problem, {0, 1}));
  problem.islands = {kNoIsland, kNoIsland, kNoIsland};
  EXPECT_FALSE(may_form_group(problem, {1, 2}));
}

TEST(SearchGroups, ChoosesGroupsOverNearLinksAndStagesOverFarOnes) {
  EXPECT_EQ(placed(swarm_of(2, 8, kNear)), "0+1: 0-8; ");
  EXPECT_EQ(placed(swarm_of(2, 8, kFar)), "0: 0-8; ");
  Problem small = swarm_of(2, 8, kNear);
  for (Node& node : small.nodes) node.memory_bytes = 400;
  EXPECT_EQ(placed(small), "0+1: 0-8; ");
  small.links.assign(4, kFar);
  EXPECT_EQ(placed(small), "0: 0-4; 1: 4-8; ");
  small.islands.clear();
  EXPECT_EQ(placed(small), "0: 0-4; 1: 4-8; ");
}

TEST(SearchGroups, AGainOfLessThanATenthIsNone) {
  // A layer of 1 ms takes 0.5 ms of two, and the exchanges `delay`.
  Problem problem = swarm_of(2, 100, {});
  problem.model.exchanges = {1, 0, 0, 0.0};
  const auto at = [&](double exchange) {
    problem.links.assign(4, {exchange, 1e10});
    return placed(problem);
  };
  EXPECT_EQ(at(0.38e-3), "0+1: 0-100; ");
  EXPECT_EQ(at(0.44e-3), "0: 0-100; ");
}

TEST(SearchGroups, AutoTakesTheFewestNodesWithinATenth) {
  Problem problem = swarm_of(4, 100, {});
  problem.model.exchanges = {1, 0, 0, 0.0};
  // Two nodes take 0.75 ms a layer, four 0.5 ms. Then the slow ones help by less than a tenth.
  problem.links.assign(16, {0.25e-3, 1e10});
  EXPECT_EQ(placed(problem), "0+1+2+3: 0-100; ");
  problem.links.assign(16, {1e-9, 1e10});
  problem.nodes[2].layer = problem.nodes[3].layer = {20e-3, 40e-3};
  EXPECT_EQ(placed(problem), "0+1: 0-100; ");
  problem.objective = Objective::kLatency;
  EXPECT_EQ(placed(problem), "0+1+2+3: 0-100; ");
}

TEST(SearchGroups, PipelinesConnectIslands) {
  // Two islands of two, near within and far between; the model fits no island.
  Problem problem = swarm_of(4, 40, kFar);
  for (Node& node : problem.nodes) node.memory_bytes = 1'100;
  problem.islands = {0, 0, 1, 1};
  for (const std::uint32_t at : {0 * 4 + 1, 1 * 4 + 0, 2 * 4 + 3, 3 * 4 + 2}) {
    problem.links[at] = kNear;
  }
  EXPECT_EQ(placed(problem), "0+1: 0-20; 2+3: 20-40; ");
  // Unequal in speed: the quicker island gets as many layers as it holds.
  problem.nodes[2].layer = problem.nodes[3].layer = {5e-4, 1e-3};
  EXPECT_EQ(placed(problem), "2+3: 0-22; 0+1: 22-40; ");
  // A node beside a group.
  problem.islands[3] = kNoIsland;
  problem.nodes[2].layer = problem.nodes[3].layer = problem.nodes[0].layer;
  problem.nodes[2].memory_bytes = 1'800;
  EXPECT_EQ(placed(problem), "0+1: 0-22; 2: 22-40; ");
}

TEST(SearchGroups, PartsFollowSpeedAndMemory) {
  Problem problem = swarm_of(2, 8, kNear);
  problem.nodes[1].layer = {3e-3, 6e-3};
  const auto by_speed = place(problem);
  ASSERT_TRUE(by_speed.ok());
  ASSERT_EQ(by_speed->size(), 1u);
  EXPECT_EQ(by_speed->front().group, (std::vector<Rank>{{0, 192}, {1, 64}}));
  problem.nodes[0].memory_bytes = 400;
  problem.nodes[1].layer = {1.5e-3, 3e-3};
  const auto by_memory = place(problem);
  ASSERT_TRUE(by_memory.ok());
  ASSERT_EQ(by_memory->size(), 1u);
  EXPECT_EQ(by_memory->front().group, (std::vector<Rank>{{0, 128}, {1, 128}}));
}

TEST(SearchGroups, GroupsLeaveTheOthersForMorePipelines) {
  const Problem problem = swarm_of(5, 8, {1.1e-4, 1e10});
  const auto plans = plan_replicas(problem);
  ASSERT_TRUE(plans.ok()) << plans.error().message;
  std::set<std::uint32_t> nodes;
  std::size_t all = 0;
  for (const Plan& plan : *plans) {
    for (const Stage& stage : plan.stages) {
      stage.for_each_node([&](std::uint32_t node) {
        nodes.insert(node);
        ++all;
      });
    }
  }
  EXPECT_EQ(nodes.size(), all) << "no node is in two pipelines";
  EXPECT_GT(plans->front().stages.front().group.size(), 1u);
  for (const Spare& spare : plans->back().spares) EXPECT_FALSE(nodes.contains(spare.node));
}

TEST(SearchGroups, SixteenNodesOfAFewKinds) {
  Problem problem = swarm_of(16, 60, kNear);
  for (std::uint32_t i = 0; i < 16; ++i) {
    problem.islands[i] = i / 8;
    problem.nodes[i].memory_bytes = 700;
    if (i % 8 < 3) problem.nodes[i].layer = {2e-3, 4e-3};
  }
  for (const Objective objective :
       {Objective::kAuto, Objective::kLatency, Objective::kThroughput}) {
    problem.objective = objective;
    const auto stages = place(problem);
    ASSERT_TRUE(stages.ok()) << stages.error().message;
    Problem without = problem;
    without.islands.clear();
    const auto alone = place(without);
    ASSERT_TRUE(alone.ok());
    EXPECT_LE(cost_seconds(problem, *stages), cost_seconds(problem, *alone));
    for (const Stage& stage : *stages) EXPECT_TRUE(fits(problem, stage));
  }
  problem.objective = Objective::kLatency;
  const auto stages = place(problem);
  ASSERT_TRUE(stages.ok());
  EXPECT_EQ(stages->front().group.size(), 8u) << text(*stages);
}

// --- against every pipeline of nodes and groups --------------------------------------------------

struct Least {
  double searched = std::numeric_limits<double>::infinity();  // with parts by speed, or by memory
  double possible = std::numeric_limits<double>::infinity();  // also with those of its own layers
  double alone = std::numeric_limits<double>::infinity();     // of nodes alone
};

double layer_of(const Problem& problem, const Node& node) {
  return problem.objective == Objective::kThroughput ? std::max(node.layer.one, node.layer.batch)
                                                     : node.layer.one;
}

// The groups of these nodes that the search considers.
std::vector<std::vector<Rank>> groups_of(const Problem& problem,
                                         const std::vector<std::uint32_t>& nodes) {
  if (!may_form_group(problem, nodes)) return {};
  double quickest = std::numeric_limits<double>::infinity();
  std::uint64_t memory = 0;
  for (const std::uint32_t node : nodes) {
    quickest = std::min(quickest, layer_of(problem, problem.nodes[node]));
    memory += problem.nodes[node].memory_bytes;
  }
  std::vector<std::vector<Rank>> all = {divide_group(problem, nodes, 0)};
  if (!fits(problem, {nodes.front(), {0, problem.layers()}, all.front()})) {
    const std::uint64_t room = memory - memory * nodes.size() / kParts;
    all.push_back(
        divide_group(problem, nodes, std::min(room, stage_bytes(problem, {0, problem.layers()}))));
  }
  std::erase_if(all, [&](const std::vector<Rank>& group) {
    if (group.empty()) return true;
    return layer_of(problem, group_node(problem, group)) * kGroupGain > quickest;
  });
  return all;
}

bool is_linked(const Problem& problem, const std::vector<Stage>& stages) {
  return instances::linked(problem, stages);
}

Least least_of(const Problem& problem) {
  Least least;
  std::vector<Stage> stages;
  std::uint32_t used = 0;
  const auto count = static_cast<std::uint32_t>(problem.nodes.size());
  const std::function<void(std::uint32_t, bool)> extend = [&](std::uint32_t begin, bool own) {
    if (begin == problem.layers()) {
      const bool wanted = problem.stages == 0 || problem.stages == stages.size();
      if (!wanted || !is_linked(problem, stages)) return;
      const double cost = cost_seconds(problem, stages);
      const bool grouped =
          std::ranges::any_of(stages, [](const Stage& stage) { return !stage.group.empty(); });
      least.possible = std::min(least.possible, cost);
      if (!own) least.searched = std::min(least.searched, cost);
      if (!grouped) least.alone = std::min(least.alone, cost);
      return;
    }
    for (std::uint32_t set = 1; set < (1U << count); ++set) {
      if ((set & used) != 0) continue;
      std::vector<std::uint32_t> nodes;
      for (std::uint32_t i = 0; i < count; ++i) {
        if ((set >> i) & 1U) nodes.push_back(i);
      }
      std::vector<std::vector<Rank>> groups = {{}};
      if (nodes.size() > 1) groups = groups_of(problem, nodes);
      used |= set;
      for (std::uint32_t end = begin + 1; end <= problem.layers(); ++end) {
        for (const std::vector<Rank>& group : groups) {
          stages.push_back({nodes.front(), {begin, end}, group});
          if (fits(problem, stages.back())) {
            extend(end, own);
            if (nodes.size() > 1) {
              const auto parts = divide_group(problem, nodes, stage_bytes(problem, {begin, end}));
              Stage& last = stages.back();
              if (!parts.empty() && parts != last.group) {
                last.group = parts;
                if (fits(problem, last)) extend(end, true);
              }
            }
          }
          stages.pop_back();
        }
      }
      used &= ~set;
    }
  };
  extend(0, false);
  return least;
}

// As instances::random_problem(), with islands, and exchanges from cheap to hopeless.
Problem random_groups(std::uint64_t seed, const instances::Bounds& bounds) {
  Problem problem = instances::random_problem(seed, bounds);
  SeededRandom random(seed ^ 0x5eed);
  const double exchange = std::pow(10.0, -6.0 + 2.5 * unit(random));
  for (Link& link : problem.links) {
    if (link.bytes_per_second > 0.0) link.delay_seconds = exchange * (0.5 + unit(random));
  }
  if (below(random, 3) == 0) {  // equal nodes on equal links
    for (Node& node : problem.nodes) {
      const std::string name = node.name;
      node = problem.nodes.front();
      node.name = name;
    }
    problem.links.assign(problem.links.size(), {exchange, 1e9});
  }
  problem.model.exchanges = {1 + below(random, 4), below(random, 100), below(random, 100),
                             below(random, 2) == 0 ? 0.0 : 0.2 * unit(random)};
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const std::uint32_t island = below(random, 10);
    problem.islands.push_back(island < 8 ? 0 : island == 8 ? 1 : kNoIsland);
  }
  return problem;
}

void check_against_all(std::uint64_t first, std::uint64_t count, const instances::Bounds& bounds) {
  std::uint64_t grouped = 0;
  std::uint64_t refused = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Problem problem = random_groups(seed, bounds);
    ASSERT_TRUE(check(problem).ok()) << "seed " << seed;
    const Least least = least_of(problem);
    const auto stages = place(problem);
    ASSERT_EQ(stages.ok(), std::isfinite(least.searched)) << "seed " << seed;
    if (!stages.ok()) continue;
    const double cost = cost_seconds(problem, *stages);
    const double near = 1.0 + 2e-4;  // of throughput, whose pace is found within 1e-4
    std::uint32_t begin = 0;
    bool any = false;
    for (const Stage& stage : *stages) {
      EXPECT_EQ(stage.layers.begin, begin);
      EXPECT_TRUE(fits(problem, stage)) << "seed " << seed;
      begin = stage.layers.end;
      any = any || !stage.group.empty();
    }
    EXPECT_EQ(begin, problem.layers());
    if (any) {
      ++grouped;
      EXPECT_LE(cost, least.searched * near) << "seed " << seed;
      EXPECT_GE(cost * near, least.possible) << "seed " << seed;
      EXPECT_LE(cost * kGroupGain, least.alone * near) << "seed " << seed;
    } else {
      refused += least.searched < least.alone ? 1 : 0;
      EXPECT_LE(cost, least.alone * near) << "seed " << seed;
      EXPECT_GE(least.searched * kGroupGain * near, least.alone) << "seed " << seed;
    }
  }
  EXPECT_GT(grouped, count / 10) << "many instances have groups";
  EXPECT_GT(refused, 0u) << "and in some they gain too little";
}

TEST(SearchGroups, EqualsTheBestOfAllPipelinesOfEqualLayers) {
  check_against_all(1, 300, {4, 4, true});
}

TEST(SearchGroups, EqualsTheBestOfAllPipelinesOfUnequalLayers) {
  check_against_all(1'000, 300, {4, 4, false});
}

TEST(SearchGroups, EqualsTheBestOfAllPipelinesOfFiveNodes) {
  check_against_all(2'000, 150, {5, 3, true});
}

}  // namespace
}  // namespace hearth::placement

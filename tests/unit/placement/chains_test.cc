#include "placement/chains.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "placement/ranges.h"
#include "tests/unit/placement/swarms.h"

namespace hearth::placement {
namespace {

using instances::random_swarm;

void check_shape(const Problem& problem, const Chains& chains) {
  std::set<std::uint32_t> nodes;
  double all = 0.0;
  ASSERT_FALSE(chains.pipelines.empty());
  for (const Route& pipeline : chains.pipelines) {
    ASSERT_EQ(pipeline.stages.size(), chains.ranges.size());
    for (std::size_t i = 0; i < chains.ranges.size(); ++i) {
      const Stage& stage = pipeline.stages[i];
      ASSERT_EQ(stage.layers, chains.ranges[i]);
      ASSERT_EQ(chains.range_of[stage.node], i);
      ASSERT_TRUE(nodes.insert(stage.node).second) << "in two pipelines";
      ASSERT_TRUE(fits(problem, stage));
    }
    ASSERT_TRUE(instances::linked(problem, pipeline.stages));
    all += problem.batch_rows / pace_seconds(problem, pipeline.stages, problem.batch_rows);
  }
  ASSERT_EQ(chains.ranges.front().begin, 0U);
  ASSERT_EQ(chains.ranges.back().end, problem.layers());
  ASSERT_NEAR(chains.all_tokens_per_second / all, 1.0, 1e-9);
  ASSERT_LE(chains.all_tokens_per_second, chains.bound * (1.0 + 1e-9));
}

// Cards of three speeds, each of which holds half of the model, and one slow machine.
Problem cards() {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(24, 100), 0, 0, 1'000, 0};
  problem.objective = Objective::kThroughput;
  for (std::uint32_t i = 0; i < 24; ++i) {
    const double layer = i < 8 ? 1e-3 : i < 16 ? 2e-3 : 4e-3;
    problem.nodes.push_back({"n" + std::to_string(i), 0.0, {layer, 2.0 * layer}, {}, 1'300});
  }
  problem.nodes.push_back({"slow", 0.0, {1.0, 2.0}, {}, 1'300});
  problem.links.assign(25 * 25, {1e-5, 1e9});
  return problem;
}

TEST(ChainsTest, EachPipelineHasNodesOfEveryKindInShareToTheirSpeed) {
  const Problem problem = cards();
  const auto chains = plan_chains(problem);
  ASSERT_TRUE(chains.ok());
  check_shape(problem, *chains);
  EXPECT_GT(chains->all_tokens_per_second, 0.9 * chains->bound);
  EXPECT_LE(chains->pipelines.size(), 12U) << "the slow one is in none";
}

TEST(ChainsTest, ForLatencyTheQuickestNodesComeTogether) {
  Problem problem = cards();
  problem.objective = Objective::kLatency;
  const auto chains = plan_chains(problem);
  ASSERT_TRUE(chains.ok());
  check_shape(problem, *chains);
  for (const Stage& stage : chains->pipelines.front().stages) EXPECT_LT(stage.node, 8U);
}

TEST(ChainsTest, AsManyStagesAsWereAskedFor) {
  Problem problem = cards();
  problem.stages = 4;
  const auto chains = plan_chains(problem);
  ASSERT_TRUE(chains.ok());
  check_shape(problem, *chains);
  EXPECT_EQ(chains->ranges.size(), 4U);
}

TEST(ChainsTest, WithoutRoomThereAreNone) {
  Problem problem = cards();
  for (Node& node : problem.nodes) node.memory_bytes = 90;
  EXPECT_EQ(plan_chains(problem).error().code, ErrorCode::kNoCapacity);
}

TEST(ChainsTest, OnlyWhereLinksWereMeasured) {
  Problem problem = cards();
  for (std::uint32_t i = 0; i < 25; ++i) {
    problem.links[i * 25] = {};  // to the first node
    problem.links[i] = {};       // from it
  }
  const auto chains = plan_chains(problem);
  ASSERT_TRUE(chains.ok());
  check_shape(problem, *chains);
}

TEST(ChainsTest, RandomSwarmsReachMostOfTheBound) {
  double shares = 0.0;
  std::uint32_t swarms = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Problem problem = random_swarm(seed, {24, 60, 32, 3, 0.2});
    const auto chains = plan_chains(problem);
    if (!chains.ok()) continue;
    check_shape(problem, *chains);
    shares += chains->all_tokens_per_second / chains->bound;
    ++swarms;
  }
  ASSERT_GT(swarms, 30U);
  std::printf("pipelines of %u swarms: on the average %.3f of the bound\n", swarms,
              shares / swarms);
  EXPECT_GT(shares / swarms, 0.75);
}

}  // namespace
}  // namespace hearth::placement

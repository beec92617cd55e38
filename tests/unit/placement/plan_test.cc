#include "placement/plan.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "placement/costs.h"
#include "placement/search.h"
#include "tests/unit/placement/instances.h"

namespace hearth::placement {
namespace {

using instances::random_problem;

// Cards that read a layer in a millisecond, on links that cost a tenth of one.
Problem cards(std::uint32_t count, std::uint64_t memory = 1'000) {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(8, 100), 0, 0, 1'000, 0};
  for (std::uint32_t i = 0; i < count; ++i) {
    problem.nodes.push_back({"card-" + std::to_string(i), 0.0, {1e-3, 2e-3}, {0.0, 0.0}, memory});
  }
  problem.links.assign(std::size_t{count} * count, {1e-4, 1e9});
  return problem;
}

Spare spare_of(const Plan& plan, std::uint32_t node) {
  for (const Spare& spare : plan.spares) {
    if (spare.node == node) return spare;
  }
  ADD_FAILURE() << "node " << node << " is no spare";
  return {};
}

// Of the error that a plan has to give.
Shortage::Of shortage(const Problem& problem) {
  const auto none = placement::plan(problem);
  EXPECT_FALSE(none.ok());
  if (!none.ok()) {
    EXPECT_EQ(none.error().code, ErrorCode::kNoCapacity);
    EXPECT_FALSE(none.error().message.empty());
  }
  return shortage_of(problem).of;
}

TEST(PlanTest, ANodeThatSlowsThePipelineIsSpareWithItsFigures) {
  const auto plan = placement::plan(cards(2));
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->stages, (std::vector<Stage>{{0, {0, 8}}}));
  ASSERT_EQ(plan->spares.size(), 1U);
  // One node: 8 ms. Two: 8 ms and two hops of 0.1 ms, with a microsecond of bytes.
  EXPECT_EQ(plan->spares[0].reason, SpareReason::kAdded);
  EXPECT_NEAR(plan->spares[0].tokens_per_second, 125.0, 1e-6);
  EXPECT_NEAR(plan->spares[0].with_tokens_per_second, 1.0 / 8.201e-3, 1e-6);
}

// The second card gains 8.5 %: 8.16 ms alone, 7.52 ms with it and two hops.
TEST(PlanTest, AutoTakesTheFewestStagesWithinItsMargin) {
  Problem problem = cards(2);
  problem.nodes[0].layer.one = 1.02e-3;
  problem.nodes[1].layer.one = 0.9e-3;
  problem.nodes[1].memory_bytes = 700;  // holds 7 of 8 layers
  problem.objective = Objective::kLatency;
  const auto quickest = placement::place(problem);
  ASSERT_TRUE(quickest.ok());
  EXPECT_EQ(quickest->size(), 2U);
  problem.objective = Objective::kAuto;
  auto plan = placement::place(problem);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(*plan, (std::vector<Stage>{{0, {0, 8}}}));
  // Beyond the margin the quickest counts.
  problem.nodes[0].layer.one = 2e-3;
  plan = placement::place(problem);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->size(), 2U);
}

TEST(PlanTest, AutoLeavesRoomForKv) {
  Problem problem = cards(4, 500'000);
  problem.model = {std::vector<std::uint64_t>(8, 100'000), 0, 0, 1'000, 1};
  problem.objective = Objective::kAuto;
  const auto stages = [&] {
    const auto plan = placement::place(problem);
    return plan.ok() ? plan->size() : 0;
  };
  // Two cards have room for 25,000 positions, three for 66,666.
  EXPECT_EQ(stages(), 3U);
  for (Node& node : problem.nodes) node.memory_bytes = 600'000;
  EXPECT_EQ(stages(), 2U);
  // A budget is the owner's choice.
  for (Node& node : problem.nodes) node.kv_budget_bytes = 50'000;
  EXPECT_EQ(stages(), 2U);
  // Where no pipeline has so much room, and where a further hop costs more than a tenth.
  for (Node& node : problem.nodes) node.memory_bytes = 410'000;
  problem.nodes.resize(2);
  problem.links.resize(4);
  EXPECT_EQ(stages(), 2U);
  problem = cards(4, 500'000);
  problem.model = {std::vector<std::uint64_t>(8, 100'000), 0, 0, 1'000, 1};
  problem.links.assign(16, {2e-3, 1e9});
  problem.objective = Objective::kAuto;
  EXPECT_EQ(stages(), 2U);
}

TEST(PlanTest, ThroughputTakesBoth) {
  Problem problem = cards(2);
  problem.objective = Objective::kThroughput;
  const auto plan = placement::plan(problem);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->stages.size(), 2U);
  EXPECT_EQ(plan->stages[0].layers.size(), 4U);
  EXPECT_NEAR(plan->prediction.all_tokens_per_second, 16.0 / 8e-3, 1.0);
  EXPECT_EQ(plan->prediction.streams, 48U);
}

TEST(PlanTest, ASlowCardAmongFastOnesGetsFewLayersOrNone) {
  Problem problem = cards(3, 400);
  problem.nodes[1].layer = {1e-2, 2e-2};
  auto plan = placement::plan(problem);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->stages.size(), 2U);
  const Spare slow = spare_of(*plan, 1);
  EXPECT_EQ(slow.reason, SpareReason::kAdded);
  EXPECT_LT(slow.with_tokens_per_second, slow.tokens_per_second);
  problem.nodes[2].memory_bytes = 300;  // one layer is left over
  plan = placement::plan(problem);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->stages.size(), 3U);
  for (const Stage& stage : plan->stages) {
    EXPECT_TRUE(stage.node != 1 || stage.layers.size() == 1);
  }
}

TEST(PlanTest, TheOrderAvoidsASlowLink) {
  Problem problem = cards(3, 300);
  problem.links[0 * 3 + 1].bytes_per_second = 1e5;
  problem.links[1 * 3 + 0].bytes_per_second = 1e9;
  const auto plan = placement::plan(problem);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->stages.size(), 3U);
  for (std::size_t i = 0; i + 1 < 3; ++i) {
    EXPECT_FALSE(plan->stages[i].node == 0 && plan->stages[i + 1].node == 1);
  }
}

TEST(PlanTest, KvIsPartOfWhatANodeHolds) {
  Problem problem = cards(2);
  problem.model.kv_bytes = 1;
  problem.kv_tokens = 100;  // 8 layers with 100 bytes each more: 1600 of 1000
  const auto plan = placement::plan(problem);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->stages.size(), 2U);
  problem.kv_tokens = 200;
  EXPECT_EQ(shortage(problem), Shortage::Of::kMemory);
  EXPECT_EQ(shortage_of(problem).model_bytes, 2'400U);
  EXPECT_EQ(shortage_of(problem).memory_bytes, 2'000U);
}

TEST(PlanTest, MoreStagesThanNodesAreNotPlanned) {
  Problem problem = cards(2);
  problem.stages = 3;
  EXPECT_EQ(shortage(problem), Shortage::Of::kNodes);
}

TEST(PlanTest, AShortageIsOfMemoryOrOfStagesOrOfLinksOrOfKv) {
  Problem problem = cards(4, 250);
  problem.stages = 3;  // 8 layers of 100 bytes in 750
  EXPECT_EQ(shortage(problem), Shortage::Of::kStageMemory);
  problem.stages = 0;  // 1000 bytes, two layers each
  problem.links.assign(16, {});
  EXPECT_EQ(shortage(problem), Shortage::Of::kLinks);
  problem = cards(5, 199);  // one layer each
  EXPECT_EQ(shortage(problem), Shortage::Of::kWholeLayers);
  problem = cards(4);
  problem.model.kv_bytes = 1;
  problem.kv_tokens = 10;
  problem.stages = 3;
  for (Node& node : problem.nodes) node.kv_budget_bytes = 29;  // two layers' of eight
  EXPECT_EQ(shortage(problem), Shortage::Of::kKvBudgets);
  EXPECT_EQ(shortage_of(problem).kv_layers, 6U);
}

TEST(PlanTest, ASpareHoldsNoLayerOrHasNoLink) {
  Problem problem = cards(3, 400);
  problem.nodes[1].memory_bytes = 99;
  auto plan = placement::plan(problem);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(spare_of(*plan, 1).reason, SpareReason::kMemory);
  EXPECT_EQ(spare_of(*plan, 1).bytes, 100U);
  problem = cards(3, 400);
  for (const std::size_t link : {1U, 3U, 5U, 7U}) problem.links[link].bytes_per_second = 0.0;
  plan = placement::plan(problem);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(spare_of(*plan, 1).reason, SpareReason::kNotLinked);
  problem = cards(3, 400);
  problem.model.kv_bytes = 1;
  problem.kv_tokens = 20;
  problem.nodes[1].kv_budget_bytes = 19;
  problem.nodes[0].memory_bytes = problem.nodes[2].memory_bytes = 500;
  plan = placement::plan(problem);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(spare_of(*plan, 1).reason, SpareReason::kKvBudget);
  EXPECT_EQ(spare_of(*plan, 1).bytes, 20U);
}

TEST(PlanTest, LayersWithAStateAddNothingToAPosition) {
  Problem problem = cards(1);
  problem.model.layer_kv = {{0, 6}, {0, 6}, {0, 6}, {1, 0}, {0, 6}, {0, 6}, {0, 6}, {1, 0}};
  problem.kv_tokens = 10;
  const Stage all{0, {0, 8}};
  const std::uint64_t weights = 800;
  EXPECT_EQ(stage_bytes(problem, all.layers), weights + 36 + 2 * 10);
  std::uint64_t& budget = problem.nodes[0].kv_budget_bytes;
  const auto room = [&] { return predict(problem, {all}).kv_tokens; };
  budget = 55;
  EXPECT_FALSE(fits(problem, all));
  EXPECT_EQ(room(), 9U);
  EXPECT_EQ(shortage(problem), Shortage::Of::kKvBudgets);
  budget = 56;
  EXPECT_TRUE(fits(problem, all));
  EXPECT_EQ(room(), 10U);
  budget = 150;  // two states within its half
  EXPECT_EQ(room(), (150U - 2 * 36) / 2);
  problem.nodes[0].memory_bytes = weights + 91;  // which leave no pages for ten positions here
  EXPECT_EQ(room(), (91U - 36) / 2);
  EXPECT_EQ(predict(problem, {{0, {0, 3}}}).kv_tokens, std::numeric_limits<std::uint64_t>::max());
}

TEST(PlanTest, CostsCountStatesAsTheProblemDoes) {
  Problem problem = cards(1);
  problem.model.layer_kv = {{0, 6}, {0, 6}, {0, 6}, {1, 0}, {0, 6}, {0, 6}, {0, 6}, {1, 0}};
  problem.kv_tokens = 10;
  for (const std::uint64_t budget : {5U, 6U, 9U, 10U, 28U, 55U, 56U}) {
    problem.nodes[0].kv_budget_bytes = budget;
    const Costs costs(problem);
    for (std::uint32_t begin = 0; begin < 8; ++begin) {
      for (std::uint32_t end = begin + 1; end <= 8; ++end) {
        EXPECT_EQ(costs.fits(0, {begin, end}), fits(problem, {0, {begin, end}}))
            << budget << ": " << begin << " to " << end;
      }
    }
  }
}

TEST(PlanTest, OfManyNodesSixteenAreLookedAtAndTheRestFormMorePipelines) {
  Problem problem = cards(24, 100);  // eight for one pipeline
  for (std::uint32_t i = 0; i < 12; ++i) problem.nodes[i].layer = {5e-3, 1e-2};
  const auto plans = plan_replicas(problem);
  ASSERT_TRUE(plans.ok());
  EXPECT_EQ(plans->size(), 3U);
  std::set<std::uint32_t> used;
  for (const Plan& plan : *plans) {
    EXPECT_EQ(plan.stages.size(), 8U);
    for (const Stage& stage : plan.stages) EXPECT_TRUE(used.insert(stage.node).second);
  }
  for (const Stage& stage : plans->front().stages) EXPECT_GE(stage.node, 12U);
  EXPECT_EQ(used.size(), 24U);
  EXPECT_EQ(spare_of(plans->front(), 11).reason, SpareReason::kNotSearched);
}

TEST(PlanTest, WhatWouldImproveItIsPlannedAnew) {
  Problem problem = cards(2, 400);
  problem.links.assign(4, {5e-3, 1e9});
  const auto plan = placement::plan(problem);
  ASSERT_TRUE(plan.ok());
  const auto gains = improvements(problem, *plan);
  ASSERT_FALSE(gains.empty());
  // Then one node holds everything, and nothing travels.
  EXPECT_EQ(gains[0].change, Gain::Change::kMemory);
  EXPECT_EQ(gains[0].nodes, (std::vector<std::uint32_t>{0}));
  EXPECT_NEAR(gains[0].after_tokens_per_second, 125.0, 1e-6);
  EXPECT_NEAR(gains[0].tokens_per_second, 55.6, 0.1);
  EXPECT_LE(gains.size(), 3U);
}

TEST(PlanTest, TheSameProblemHasTheSamePlan) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Problem problem = random_problem(seed, {5, 9, false});
    const auto one = place(problem);
    const auto two = place(problem);
    ASSERT_EQ(one.ok(), two.ok());
    EXPECT_TRUE(!one.ok() || *one == *two);
  }
}

TEST(PlanTest, AFigureOutOfRangeIsAnError) {
  Problem problem = cards(2);
  problem.nodes[0].layer.one = 0.0;
  const auto none = placement::plan(problem);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace hearth::placement

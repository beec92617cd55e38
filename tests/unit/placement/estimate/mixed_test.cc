#include "placement/estimate/mixed.h"

#include <gtest/gtest.h>

#include <vector>

#include "placement/plan.h"
#include "tests/unit/placement/estimate/setups.h"

namespace hearth::placement {
namespace {

// The card, and one with twice the rates and half of the memory.
std::vector<CardSet> sets_of(std::uint32_t slow, std::uint32_t quick) {
  CardSet first = {small_setup(1).card, slow};
  first.card.key = "slow";
  CardSet second = {first.card, quick};
  second.card.key = "quick";
  second.card.memory_bytes_per_second *= 2.0;
  second.card.fp16_flops *= 2.0;
  second.card.link_bytes_per_second /= 2.0;
  second.card.link_seconds *= 2.0;
  return {first, second};
}

TEST(Mixed, EqualCardsArePredictedAsTheRooflinePredictsThem) {
  EstimateInput setup = small_setup(4);
  setup.batch = 8;
  const CardSet set = {setup.card, 4};
  const Problem problem = problem_of(setup, {&set, 1});
  ASSERT_TRUE(check(problem).ok());
  const std::vector<Stage> stages = {{0, {0, 2}}, {1, {2, 4}}, {2, {4, 6}}, {3, {6, 8}}};
  const Prediction found = predict(problem, stages);
  const Estimate expected = estimate(setup, {4, 1, 1});
  // The problem's seconds of one row are those of a full context, too.
  EXPECT_NEAR(found.tokens_per_second / expected.alone, 1.0, 1e-6);
  EXPECT_NEAR(found.all_tokens_per_second / expected.total, 1.0, 1e-6);
  EXPECT_EQ(found.streams, expected.users_wanted);
}

TEST(Mixed, TheQuickerCardGetsMoreLayers) {
  EstimateInput setup = small_setup(2);
  const std::vector<CardSet> sets = sets_of(1, 1);
  Problem problem = problem_of(setup, sets);
  ASSERT_EQ(problem.nodes.size(), 2U);
  EXPECT_EQ(problem.nodes[0].name, "slow-1");
  EXPECT_EQ(problem.nodes[1].name, "quick-1");
  EXPECT_EQ(problem.batch_rows, 2U) << "a batch of one has no second measure";
  problem.objective = Objective::kThroughput;
  problem.stages = 2;
  const auto found = plan(problem);
  ASSERT_TRUE(found.ok()) << found.error().message;
  std::uint32_t layers[2] = {};
  for (const Stage& stage : found->stages) layers[stage.node] = stage.layers.size();
  EXPECT_EQ(layers[0] + layers[1], 8U);
  EXPECT_GT(layers[1], layers[0]);
}

TEST(Mixed, CardsOfOneMachineUseTheirSlowerLink) {
  EstimateInput setup = small_setup(3);
  setup.cards_per_machine = 2;
  const std::vector<CardSet> sets = sets_of(1, 2);
  const Problem problem = problem_of(setup, sets);
  EXPECT_EQ(problem.link(0, 1).bytes_per_second, 5e9);
  EXPECT_EQ(problem.link(0, 1).delay_seconds, 2e-5);
  EXPECT_EQ(problem.link(1, 2).bytes_per_second, setup.network.bytes_per_second);
  EXPECT_EQ(problem.link(2, 0).delay_seconds, setup.network.delay_seconds);
}

TEST(Mixed, AWholeMachineStandsAlone) {
  EstimateInput setup = small_setup(3);
  setup.cards_per_machine = 3;
  std::vector<CardSet> sets = sets_of(2, 1);
  sets[1].card.whole_machine = true;
  const Problem problem = problem_of(setup, sets);
  EXPECT_EQ(problem.link(0, 1).bytes_per_second, 1e10);
  EXPECT_EQ(problem.link(0, 2).bytes_per_second, setup.network.bytes_per_second);
}

TEST(Mixed, ACardWithoutMemoryForWeightsHoldsNone) {
  EstimateInput setup = small_setup(2);
  std::vector<CardSet> sets = sets_of(1, 1);
  sets[1].card.memory_bytes = 1e9;  // less than the margin
  const Problem problem = problem_of(setup, sets);
  EXPECT_EQ(problem.nodes[1].memory_bytes, 0U);
  EXPECT_TRUE(check(problem).ok());
}

TEST(Mixed, AMixtureOfExpertsReadsLessThanItHolds) {
  EstimateInput setup = small_setup(2);
  setup.shape.experts = 8;
  setup.shape.experts_used = 2;
  const std::vector<CardSet> sets = sets_of(1, 1);
  const Problem problem = problem_of(setup, sets);
  ASSERT_TRUE(check(problem).ok());
  EXPECT_LT(problem.model.mean_read_bytes(), problem.model.mean_layer_bytes() / 2.0);
}

}  // namespace
}  // namespace hearth::placement

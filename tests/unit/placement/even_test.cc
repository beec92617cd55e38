#include "placement/even.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "placement/plan.h"
#include "placement/search.h"
#include "tests/unit/placement/instances.h"

namespace hearth::placement {
namespace {

// Nodes that hold 13 layers and read one in a millisecond.
Problem equal_nodes(std::uint32_t count, std::uint32_t layers, Objective objective) {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(layers, 100), 0, 0, 1'000, 1};
  problem.kv_tokens = 10;
  for (std::uint32_t i = 0; i < count; ++i) {
    problem.nodes.push_back({"n" + std::to_string(i), 0.0, {1e-3, 2e-3}, {0.0, 0.0}, 1'500});
  }
  problem.links.assign(std::size_t{count} * count, {1e-5, 1e9});
  problem.objective = objective;
  return problem;
}

std::vector<std::uint32_t> sizes(const std::vector<Stage>& stages) {
  std::vector<std::uint32_t> out;
  for (const Stage& stage : stages) out.push_back(stage.layers.size());
  return out;
}

using Sizes = std::vector<std::uint32_t>;

TEST(EvenTest, EqualNodesGetEqualShares) {
  for (const Objective objective :
       {Objective::kAuto, Objective::kLatency, Objective::kThroughput}) {
    Problem problem = equal_nodes(8, 80, objective);
    problem.stages = 8;
    const auto plan = placement::plan(problem);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(sizes(plan->stages), Sizes(8, 10)) << name_of(objective);
    // The fullest stage has room for 500 bytes of KV, at a byte for each of 10 layers.
    EXPECT_EQ(plan->prediction.kv_tokens, 50U);
  }
}

TEST(EvenTest, OneStreamStaysAsQuick) {
  Problem problem = equal_nodes(3, 30, Objective::kLatency);
  problem.nodes[0].layer = {9.9e-4, 1.98e-3};
  const std::vector<Stage> stages = {{0, {0, 13}}, {1, {13, 26}}, {2, {26, 30}}};
  // The quickest node keeps what it has. The others are equal.
  EXPECT_EQ(sizes(even_out(problem, stages)), (Sizes{13, 9, 8}));
  // An even split costs 0.1 % of a stream.
  problem.objective = Objective::kAuto;
  EXPECT_EQ(sizes(even_out(problem, stages)), (Sizes{10, 10, 10}));
  // Its price here is above the margin: 13 layers in half of the time.
  problem.nodes[0].layer = {5e-4, 2e-3};
  const std::vector<Stage> even = even_out(problem, stages);
  EXPECT_EQ(even.front().layers.size(), 13U);
}

TEST(EvenTest, EveryStageFitsItsNode) {
  Problem problem = equal_nodes(3, 30, Objective::kLatency);
  problem.nodes[1].memory_bytes = 600;
  const std::vector<Stage> stages = {{0, {0, 13}}, {1, {13, 17}}, {2, {17, 30}}};
  EXPECT_EQ(sizes(even_out(problem, stages)), (Sizes{12, 5, 13}));
}

TEST(EvenTest, NoSplitBecomesWorse) {
  std::uint32_t moved = 0;
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    Problem problem = instances::random_problem(seed, {5, 12, seed % 2 == 0});
    if (seed % 5 == 0) problem.objective = Objective::kAuto;
    const auto found = search(problem);
    if (!found) continue;
    const std::vector<Stage> even = even_out(problem, *found);
    const double margin = problem.objective == Objective::kAuto ? kEvenMargin : 1e-6;
    EXPECT_LE(cost_seconds(problem, even), cost_seconds(problem, *found) * (1.0 + margin));
    EXPECT_LE(pace_seconds(problem, even, problem.batch_rows),
              pace_seconds(problem, *found, problem.batch_rows) * (1.0 + 1e-6));
    ASSERT_EQ(even.size(), found->size());
    std::uint32_t end = 0;
    for (std::size_t i = 0; i < even.size(); ++i) {
      EXPECT_EQ(even[i].node, (*found)[i].node);
      EXPECT_EQ(even[i].layers.begin, end);
      EXPECT_GT(even[i].layers.size(), 0U);
      EXPECT_TRUE(fits(problem, even[i])) << seed;
      end = even[i].layers.end;
    }
    EXPECT_EQ(end, problem.layers());
    if (even != *found) ++moved;
  }
  EXPECT_GT(moved, 0U);
}

}  // namespace
}  // namespace hearth::placement

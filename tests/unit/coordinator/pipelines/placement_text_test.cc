#include "coordinator/pipelines/placement_text.h"

#include <gtest/gtest.h>

#include "placement/plan.h"

namespace hearth::coordinator {
namespace {

using placement::Problem;
using placement::Spare;
using placement::SpareReason;

// Eight layers of 1 GB each, and nodes with so much memory.
Problem problem_of(std::uint32_t nodes, std::uint64_t memory) {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(8, 1'000'000'000), 0, 0, 1'000, 0};
  for (std::uint32_t i = 0; i < nodes; ++i) {
    problem.nodes.push_back({"node-" + std::to_string(i), 0.0, {1e-3, 2e-3}, {}, memory});
  }
  problem.links.assign(std::size_t{nodes} * nodes, {1e-4, 1e9});
  return problem;
}

TEST(PlacementTextTest, EveryReasonOfASpareNamesItsFigures) {
  Problem problem = problem_of(20, 900'000'000);
  problem.kv_tokens = 4'096;
  problem.nodes[0].kv_budget_bytes = 100'000'000;
  const auto text = [&](SpareReason reason, std::uint64_t bytes = 0) {
    return spare_text(problem, {0, reason, bytes, 122.4, 125.0});
  };
  EXPECT_EQ(text(SpareReason::kNotSearched),
            "not considered: the exact search takes 16 of 20 nodes");
  EXPECT_EQ(text(SpareReason::kMemory, 1'000'000'000),
            "its memory of 0.90 GB holds no layer; the smallest layer takes 1.00 GB");
  EXPECT_EQ(text(SpareReason::kKvBudget, 200'000'000),
            "its KV budget of 0.10 GB is too small for 4096 positions of one layer, which take "
            "0.20 GB");
  EXPECT_EQ(text(SpareReason::kRangeMemory, 2'000'000'000),
            "its memory of 0.90 GB holds none of the layer ranges; the smallest range takes "
            "2.00 GB");
  EXPECT_EQ(text(SpareReason::kNotLinked),
            "no pipeline with it holds the model over the measured links");
  EXPECT_EQ(text(SpareReason::kRangeLinks),
            "no measured link joins it to the replicas before and after it");
  EXPECT_EQ(text(SpareReason::kAdded),
            "adding it makes the pipeline slower: 122 instead of 125 tokens/s");
  EXPECT_EQ(spare_text(problem, {0, SpareReason::kExchanged, 0, 55.56, 55.56}),
            "using it in place of another node makes the pipeline no quicker: 55.6 instead of 55.6 "
            "tokens/s");
  EXPECT_EQ(text(SpareReason::kDetour),
            "a stream through it would be too slow: 122 instead of 125 tokens/s");
}

// The text of the error that the plan gives.
std::string error_text(const Problem& problem) {
  const auto none = placement::plan(problem);
  EXPECT_FALSE(none.ok());
  if (none.ok()) return "";
  EXPECT_EQ(none.error().code, ErrorCode::kNoCapacity);
  return placement_error(problem, none.error()).message;
}

TEST(PlacementTextTest, AShortageSaysWhatIsMissingAndWhatToDo) {
  Problem problem = problem_of(2, 9'000'000'000);
  problem.stages = 3;
  EXPECT_EQ(error_text(problem),
            "3 stages need 3 nodes, and there are 2; ask for fewer stages or add nodes");
  problem = problem_of(2, 3'000'000'000);
  EXPECT_EQ(
      error_text(problem),
      "no placement of the 8 layers: they take 8.00 GB with KV of 0 positions, and the 2 nodes "
      "have 6.00 GB; add nodes or memory, or ask for fewer positions");
  problem = problem_of(4, 2'500'000'000);
  problem.stages = 3;
  EXPECT_NE(error_text(problem).find("the largest of them do not hold them in 3 stages; ask for"),
            std::string::npos);
  problem.stages = 0;
  problem.links.assign(16, {});
  EXPECT_NE(error_text(problem).find("no order of stages over the measured links"),
            std::string::npos);
  problem = problem_of(5, 1'990'000'000);
  EXPECT_NE(error_text(problem).find("whole layers do not fit"), std::string::npos);
  problem = problem_of(4, 9'000'000'000);
  problem.model.kv_bytes = 1;
  problem.kv_tokens = 10;
  problem.stages = 3;
  for (placement::Node& node : problem.nodes) node.kv_budget_bytes = 29;
  EXPECT_EQ(
      error_text(problem),
      "no placement of the 8 layers: the nodes' KV budgets hold 10 positions of 6 layers in 3 "
      "stages; ask for fewer positions, or start workers with a larger --kv-budget");
}

TEST(PlacementTextTest, AnotherErrorStaysAsItIs) {
  Problem problem = problem_of(1, 9'000'000'000);
  problem.nodes[0].layer.one = 0.0;
  const auto none = placement::plan(problem);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(placement_error(problem, none.error()).message, none.error().message);
}

}  // namespace
}  // namespace hearth::coordinator

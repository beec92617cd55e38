#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "placement/search.h"
#include "tests/unit/placement/instances.h"

namespace hearth::placement {
namespace {

using instances::random_problem;

// What a split minimises: the sum of the stages' seconds, or the slowest stage.
double seconds_of(const Problem& problem, const std::vector<Stage>& stages) {
  const bool latency = problem.objective == Objective::kLatency;
  double seconds = 0.0;
  for (const Stage& stage : stages) {
    const double one = stage_seconds(problem, stage, latency ? 1.0 : problem.batch_rows);
    seconds = latency ? seconds + one : std::max(seconds, one);
  }
  return seconds;
}

double best_of_all(const Problem& problem, std::vector<Stage> stages) {
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, std::uint32_t)> extend = [&](std::size_t i,
                                                                     std::uint32_t begin) {
    if (i == stages.size()) {
      if (begin == problem.layers()) best = std::min(best, seconds_of(problem, stages));
      return;
    }
    for (std::uint32_t end = begin + 1; end <= problem.layers(); ++end) {
      stages[i].layers = {begin, end};
      if (fits(problem, stages[i])) extend(i + 1, end);
    }
  };
  extend(0, 0);
  return best;
}

TEST(LayerSplitTest, EverySplitIsTheBestOfAll) {
  std::uint32_t fitting = 0;
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    const Problem problem = random_problem(seed, {4, 7, false});
    std::vector<Stage> order;
    for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
      if (order.size() < problem.layers()) order.push_back({node, {}});
    }
    const double best = best_of_all(problem, order);
    const std::vector<Stage> stages = split_layers(problem, order);
    ASSERT_EQ(stages.empty(), best == std::numeric_limits<double>::infinity()) << "seed " << seed;
    if (stages.empty()) continue;
    ++fitting;
    ASSERT_NEAR(seconds_of(problem, stages) / best, 1.0, 1e-9) << "seed " << seed;
  }
  EXPECT_GT(fitting, 100U);
}

}  // namespace
}  // namespace hearth::placement

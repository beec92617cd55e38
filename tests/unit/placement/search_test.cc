#include "placement/search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/limits.h"
#include "tests/unit/placement/instances.h"
#include "tests/unit/placement/search_checks.h"

namespace hearth::placement {
namespace {

using instances::Bounds;
using instances::check_must;
using instances::check_shape;
using instances::least_cost;
using instances::random_problem;

// Cost equal to that of the best of all orders of all sets with all splits.
void check_exact(std::uint64_t first_seed, std::uint64_t count, const Bounds& bounds) {
  std::uint64_t solved = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const Problem problem = random_problem(seed, bounds);
    ASSERT_TRUE(check(problem).ok()) << "seed " << seed;
    const double least = least_cost(problem);
    const auto stages = search(problem, problem.model.layer_bytes[0]);
    ASSERT_EQ(stages.has_value(), std::isfinite(least)) << "seed " << seed;
    if (!stages) continue;
    ++solved;
    check_shape(problem, *stages);
    const double cost = cost_seconds(problem, *stages);
    ASSERT_NEAR(cost / least, 1.0, 1e-4) << "seed " << seed;
  }
  EXPECT_GT(solved, count / 4);
  EXPECT_LT(solved, count);
}

TEST(SearchTest, SmallProblemsAreSolvedAsByTryingEverything) { check_exact(1, 4'000, {4, 7}); }

TEST(SearchTest, SoAreThoseOfFiveNodes) { check_exact(100'001, 600, {5, 7}); }

TEST(SearchTest, ANodeThatMustTakePartDoes) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Problem problem = random_problem(seed, {4, 7});
    check_must(problem, [&](std::uint32_t must) {
      return search(problem, problem.model.layer_bytes[0], must);
    });
  }
}

TEST(SearchTest, SixteenNodesArePlaced) {
  for (const Objective objective : {Objective::kLatency, Objective::kThroughput}) {
    SeededRandom random(7);
    Problem problem;
    problem.model = {std::vector<std::uint64_t>(80, 500), 100, 100, 16'384, 0};
    problem.objective = objective;
    for (std::uint32_t i = 0; i < limits::kExactNodes; ++i) {
      const double layer = 1e-4 * (1.0 + instances::unit(random));
      problem.nodes.push_back({"n" + std::to_string(i),
                               5e-5,
                               {layer, 2.0 * layer},
                               {layer, 2.0 * layer},
                               3'000 + instances::below(random, 6'000)});
    }
    for (std::uint32_t i = 0; i < limits::kExactNodes * limits::kExactNodes; ++i) {
      problem.links.push_back(
          {1e-4 * instances::unit(random), 1.25e8 * (1.0 + 9.0 * instances::unit(random))});
    }
    const auto stages = search(problem, 500);
    ASSERT_TRUE(stages.has_value());
    check_shape(problem, *stages);
  }
}

}  // namespace
}  // namespace hearth::placement

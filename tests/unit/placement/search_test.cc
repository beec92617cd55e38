#include "placement/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "placement/plan.h"
#include "tests/unit/placement/instances.h"
#include "tests/unit/placement/search_checks.h"

namespace hearth::placement {
namespace {

using instances::below;
using instances::Bounds;
using instances::check_must;
using instances::least_cost;
using instances::random_problem;
using instances::unit;

// Cost equal to that of the best of all orders of all sets with all splits.
void check_equal(std::uint64_t first_seed, std::uint64_t count, const Bounds& bounds) {
  std::uint64_t solved = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const Problem problem = random_problem(seed, bounds);
    ASSERT_TRUE(check(problem).ok()) << "seed " << seed;
    const double least = least_cost(problem);
    const auto stages = search(problem);
    ASSERT_EQ(stages.has_value(), std::isfinite(least)) << "seed " << seed;
    if (!stages) continue;
    ++solved;
    instances::check_shape(problem, *stages);
    const double cost = cost_seconds(problem, *stages);
    ASSERT_NEAR(cost / least, 1.0, 1e-4) << "seed " << seed;
  }
  EXPECT_GT(solved, count / 4);
  EXPECT_LT(solved, count);
}

TEST(SearchTest, SmallProblemsAreSolvedAsByTryingEverything) { check_equal(1, 4'000, {4, 7}); }

TEST(SearchTest, SoAreThoseOfFiveNodes) { check_equal(100'001, 600, {5, 7}); }

TEST(SearchTest, ARequiredNodeTakesPart) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Problem problem = random_problem(seed, {4, 7});
    check_must(problem, [&](std::uint32_t must) { return search(problem, must); });
  }
}

TEST(SearchTest, SixteenNodesArePlaced) {
  for (const Objective objective : {Objective::kLatency, Objective::kThroughput}) {
    SeededRandom random(7);
    Problem problem;
    problem.model = {std::vector<std::uint64_t>(80, 500), 100, 100, 16'384, 0};
    problem.objective = objective;
    for (std::uint32_t i = 0; i < limits::kExactNodes; ++i) {
      const double layer = 1e-4 * (1.0 + unit(random));
      problem.nodes.push_back({"n" + std::to_string(i),
                               5e-5,
                               {layer, 2.0 * layer},
                               {layer, 2.0 * layer},
                               3'000 + below(random, 6'000)});
    }
    for (std::uint32_t i = 0; i < limits::kExactNodes * limits::kExactNodes; ++i) {
      problem.links.push_back({1e-4 * unit(random), 1.25e8 * (1.0 + 9.0 * unit(random))});
    }
    const auto stages = search(problem);
    ASSERT_TRUE(stages.has_value());
    instances::check_shape(problem, *stages);
  }
}

// Sizes of two kinds that differ by much, and memory for few layers more than there are.
Problem tight_problem(std::uint64_t seed) {
  Problem problem = random_problem(seed, {5, 7, false});
  SeededRandom random(seed ^ 0x7157);
  for (std::uint64_t& bytes : problem.model.layer_bytes) bytes = below(random, 2) == 0 ? 100 : 170;
  for (Node& node : problem.nodes) {
    node.memory_bytes = 120 + below(random, 3 * 135 * problem.layers() /
                                                static_cast<std::uint32_t>(problem.nodes.size()));
  }
  return problem;
}

// The cost is that of the best of all orders of all sets with all splits, whether something is
// known before or not.
void check_unequal(const Problem& problem, std::uint64_t seed, std::uint32_t& solved) {
  ASSERT_TRUE(check(problem).ok()) << "seed " << seed;
  const double least = least_cost(problem);
  const double precision = problem.objective == Objective::kLatency ? 1e-8 : 1e-4;
  const auto alone = search_from(problem, std::nullopt);
  ASSERT_EQ(alone.has_value(), std::isfinite(least)) << "seed " << seed;
  const auto placed = place(problem);
  ASSERT_EQ(placed.ok(), std::isfinite(least)) << "seed " << seed;
  if (!alone) return;
  ++solved;
  for (const std::vector<Stage>& stages : {*alone, *placed}) {
    instances::check_shape(problem, stages);
    ASSERT_NEAR(cost_seconds(problem, stages) / least, 1.0, precision) << "seed " << seed;
  }
}

TEST(SearchTest, ProblemsWithUnequalLayersAreSolvedAsByTryingEverything) {
  std::uint32_t solved = 0;
  for (std::uint64_t seed = 1; seed <= 1'500; ++seed) {
    check_unequal(random_problem(seed, {4, 7, false}), seed, solved);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(solved, 400U);
  EXPECT_LT(solved, 1'500U);
}

TEST(SearchTest, SoAreThoseWhereMemoryIsShort) {
  std::uint32_t solved = 0;
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    check_unequal(tight_problem(seed), seed, solved);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(solved, 250U);
  EXPECT_LT(solved, 1'000U);
}

TEST(SearchTest, ARequiredNodeTakesPartWithUnequalLayers) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Problem problem = tight_problem(seed);
    check_must(problem,
               [&](std::uint32_t must) { return search_from(problem, std::nullopt, must); });
  }
}

// Two layers of 170 bytes and two of 100. With all layers as large as the largest or the mean one
// node holds too few; with all as small as the smallest the order that is found does not fit.
TEST(SearchTest, ANodeThatHoldsOnlySmallLayersGetsThem) {
  Problem problem;
  problem.model = {{170, 100, 100, 170}, 0, 0, 1'000, 0};
  problem.nodes = {{"large", 0.0, {2e-3, 4e-3}, {}, 175},
                   {"small", 0.0, {1e-3, 2e-3}, {}, 205},
                   {"other", 0.0, {3e-3, 6e-3}, {}, 175}};
  problem.links.assign(9, {1e-4, 1e9});
  const auto stages = place(problem);
  ASSERT_TRUE(stages.ok());
  EXPECT_EQ((*stages)[1], (Stage{1, {1, 3}}));
}

TEST(SearchTest, TwelveNodesArePlacedWithUnequalLayers) {
  constexpr std::uint32_t kNodes = 12;
  for (const Objective objective : {Objective::kLatency, Objective::kThroughput}) {
    SeededRandom random(7);
    Problem problem;
    problem.model = {{}, 100, 100, 16'384, 0};
    problem.objective = objective;
    for (std::uint32_t i = 0; i < 80; ++i) {
      problem.model.layer_bytes.push_back(i < 10 || i >= 70 || i % 3 == 0 ? 560 : 480);
    }
    for (std::uint32_t i = 0; i < kNodes; ++i) {
      const double layer = 1e-4 * (1.0 + unit(random));
      problem.nodes.push_back({"n" + std::to_string(i),
                               5e-5,
                               {layer, 2.0 * layer},
                               {layer, 2.0 * layer},
                               3'000 + below(random, 6'000)});
    }
    for (std::uint32_t i = 0; i < kNodes * kNodes; ++i) {
      problem.links.push_back({1e-4 * unit(random), 1.25e8 * (1.0 + 9.0 * unit(random))});
    }
    const auto stages = place(problem);
    ASSERT_TRUE(stages.ok());
    instances::check_shape(problem, *stages);
  }
}

}  // namespace
}  // namespace hearth::placement

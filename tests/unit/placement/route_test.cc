#include "placement/route.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/unit/placement/instances.h"

namespace hearth::placement {
namespace {

using instances::below;
using instances::random_problem;
using instances::unit;

struct Offered {
  std::vector<Stage> stages;
  std::vector<double> waits;
};

// Ranges that share some boundaries and cross others.
Offered random_offers(const Problem& problem, std::uint64_t seed) {
  SeededRandom random(seed);
  Offered offered;
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const std::uint32_t begin = below(random, problem.layers());
    const std::uint32_t end = begin + 1 + below(random, problem.layers() - begin);
    offered.stages.push_back({node, {begin, end}});
    offered.waits.push_back(below(random, 2) == 0 ? 1e-3 * unit(random) : 0.0);
  }
  return offered;
}

// Of every chain of stages.
double least_seconds(const Problem& problem, const Offered& offered) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<Stage> stages;
  double loaded = 0.0;
  const std::function<void(std::uint32_t)> extend = [&](std::uint32_t begin) {
    if (begin == problem.layers()) {
      if (!instances::linked(problem, stages)) return;
      double hops = 0.0;
      for (std::size_t i = 0; i < stages.size(); ++i) {
        hops += delay_seconds(problem, stages, i) + bytes_seconds(problem, stages, i, 1.0);
      }
      least = std::min(least, loaded + hops);
      return;
    }
    for (std::size_t i = 0; i < offered.stages.size(); ++i) {
      const Stage& stage = offered.stages[i];
      if (stage.layers.begin != begin) continue;
      const double before = loaded;
      loaded += offered.waits[i] + stage_seconds(problem, stage, 1.0);
      stages.push_back(stage);
      extend(stage.layers.end);
      stages.pop_back();
      loaded = before;
    }
  };
  extend(0);
  return least;
}

TEST(RouteTest, IsTheShortestOfAllChains) {
  std::uint32_t found = 0;
  std::uint32_t longer = 0;
  for (std::uint64_t seed = 1; seed <= 6'000; ++seed) {
    const Problem problem = random_problem(seed, {9, 4});
    const Offered offered = random_offers(problem, seed);
    const double least = least_seconds(problem, offered);
    const auto route = quickest_route(problem, offered.stages, offered.waits);
    ASSERT_EQ(route.has_value(), std::isfinite(least)) << "seed " << seed;
    if (!route) continue;
    ++found;
    if (route->stages.size() > 1) ++longer;
    ASSERT_NEAR(route->seconds / least, 1.0, 1e-9) << "seed " << seed;
  }
  EXPECT_GT(found, 1'000U);
  EXPECT_GT(longer, 300U);
}

// Two halves with two replicas each, a millisecond a layer, on links of a tenth of one.
Problem halves() {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(4, 100), 0, 0, 1, 0};
  problem.nodes.assign(4, {"n", 0.0, {1e-3, 2e-3}, {0.0, 0.0}, 1'000});
  problem.links.assign(16, {1e-4, 1e12});
  return problem;
}
const std::vector<Stage> kTwoStages = {{0, {0, 2}}, {1, {0, 2}}, {2, {2, 4}}, {3, {2, 4}}};

TEST(RouteTest, GoesAroundAStageThatWaits) {
  const Problem problem = halves();
  const auto route = quickest_route(problem, kTwoStages, {5e-3, 0.0, 4e-3, 0.0});
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->stages, (std::vector<Stage>{kTwoStages[1], kTwoStages[3]}));
  EXPECT_NEAR(route->seconds, 4.2e-3, 1e-8);
}

TEST(RouteTest, TheWayBackCounts) {
  Problem problem = halves();
  for (const std::uint32_t last : {2U, 3U}) problem.links[last * 4 + 0].delay_seconds = 1e-3;
  const auto route = quickest_route(problem, kTwoStages);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->stages.front().node, 1U);
}

}  // namespace
}  // namespace hearth::placement

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
  std::vector<Load> loads;
};

// Ranges that share some boundaries and cross others.
Offered random_offers(const Problem& problem, std::uint64_t seed) {
  SeededRandom random(seed);
  Offered offered;
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const std::uint32_t begin = below(random, problem.layers());
    const std::uint32_t end = begin + 1 + below(random, problem.layers() - begin);
    offered.stages.push_back({node, {begin, end}});
    Load load;
    if (below(random, 2) == 0) load.wait_seconds = 1e-3 * unit(random);
    if (below(random, 2) == 0) load.slowdown = 1.0 + unit(random);
    if (below(random, 6) == 0) load.away = true;
    if (below(random, 4) == 0) load.kv_tokens = below(random, 20);
    offered.loads.push_back(load);
  }
  return offered;
}

// Of every chain of stages.
double least_seconds(const Problem& problem, const Offered& offered, std::uint64_t kv_tokens) {
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
      const Load& load = offered.loads[i];
      if (stage.layers.begin != begin || load.away || load.kv_tokens < kv_tokens) continue;
      const double before = loaded;
      loaded += load.wait_seconds + load.slowdown * stage_seconds(problem, stage, 1.0);
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
    const double least = least_seconds(problem, offered, 10);
    const auto route = quickest_route(problem, offered.stages, offered.loads, 10);
    ASSERT_EQ(route.has_value(), std::isfinite(least)) << "seed " << seed;
    if (!route) continue;
    ++found;
    if (route->stages.size() > 1) ++longer;
    ASSERT_NEAR(route->seconds / least, 1.0, 1e-9) << "seed " << seed;
    const auto again = route_seconds(problem, offered.stages, offered.loads, route->stages);
    ASSERT_TRUE(again.has_value());
    ASSERT_NEAR(*again / least, 1.0, 1e-9) << "seed " << seed;
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

TEST(RouteTest, GoesAroundWhoIsLoaded) {
  const Problem problem = halves();
  std::vector<Load> loads(4);
  loads[0].wait_seconds = 5e-3;
  loads[2].slowdown = 3.0;
  const auto route = quickest_route(problem, kTwoStages, loads, 0);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->stages, (std::vector<Stage>{kTwoStages[1], kTwoStages[3]}));
  EXPECT_NEAR(route->seconds, 4.2e-3, 1e-8);
}

TEST(RouteTest, TheWayBackCounts) {
  Problem problem = halves();
  for (const std::uint32_t last : {2U, 3U}) problem.links[last * 4 + 0].delay_seconds = 1e-3;
  const auto route = quickest_route(problem, kTwoStages, {}, 0);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->stages.front().node, 1U);
}

TEST(RouteTest, IsLeftOnlyForOneThatIsBetterByTheMargin) {
  const Problem problem = halves();
  const Route held{{kTwoStages[0], kTwoStages[2]}, 0.0};
  std::vector<Load> loads(4);
  // The other way takes 4.2 ms.
  for (const auto& [wait, leaves] : {std::pair(0.0, false), {0.8e-3, false}, {0.9e-3, true}}) {
    loads[0].wait_seconds = wait;
    const auto route = keep_or_leave(problem, kTwoStages, loads, 0, held);
    ASSERT_TRUE(route.has_value());
    EXPECT_EQ(route->stages != held.stages, leaves) << wait;
    EXPECT_NEAR(route->seconds, 4.2e-3 + (leaves ? 0.0 : wait), 1e-8);
  }
}

// Two like ways, of which the one in use always carries the load: the route stays.
TEST(RouteTest, TwoWaysThatAreAlikeDoNotTakeTurns) {
  const Problem problem = halves();
  Route held{{kTwoStages[0], kTwoStages[2]}, 0.0};
  const Route first = held;
  for (int i = 0; i < 20; ++i) {
    std::vector<Load> loads(4);
    for (const Stage& stage : held.stages) loads[stage.node].wait_seconds = 0.3e-3;
    held = *keep_or_leave(problem, kTwoStages, loads, 0, held);
    EXPECT_EQ(held.stages, first.stages);
  }
}

TEST(RouteTest, IsLeftWhenItIsGone) {
  const Problem problem = halves();
  const Route held{{kTwoStages[0], kTwoStages[2]}, 0.0};
  std::vector<Load> loads(4);
  loads[2].away = true;
  auto route = keep_or_leave(problem, kTwoStages, loads, 0, held);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->stages.back().node, 3U);
  route = keep_or_leave(problem, {kTwoStages[1], kTwoStages[2]}, {}, 0, held);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->stages.front().node, 1U);
  EXPECT_FALSE(keep_or_leave(problem, {kTwoStages[1]}, {}, 0, held).has_value());
}

TEST(RouteTest, WhatIsHeldNeedsNoNewRoom) {
  const Problem problem = halves();
  const Route held{{kTwoStages[0], kTwoStages[2]}, 0.0};
  std::vector<Load> loads(4);
  for (Load& load : loads) load.kv_tokens = 5;
  EXPECT_FALSE(quickest_route(problem, kTwoStages, loads, 6).has_value());
  const auto route = keep_or_leave(problem, kTwoStages, loads, 6, held);
  ASSERT_TRUE(route.has_value());
  EXPECT_EQ(route->stages, held.stages);
}

}  // namespace
}  // namespace hearth::placement

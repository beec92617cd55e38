#include "placement/classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/placement/swarms.h"

namespace hearth::placement {
namespace {

using instances::most_rows_per_second;
using instances::random_swarm;

Problem swarm(const std::vector<std::pair<double, std::uint64_t>>& nodes, std::uint32_t layers) {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(layers, 100), 0, 0, 1, 0};
  for (const auto& [seconds, memory] : nodes) {
    problem.nodes.push_back({"n", 0.0, {seconds, seconds}, {0.0, 0.0}, memory});
  }
  problem.links.assign(nodes.size() * nodes.size(), {1e-4, 1e12});
  return problem;
}

TEST(ClassesTest, AreAlikeInSpeedAndInMemory) {
  const Problem problem =
      swarm({{1.0, 1'000}, {1.1, 1'100}, {1.0, 2'000}, {3.0, 1'000}, {1.15, 1'000}, {1.0, 50}}, 8);
  const auto classes = classes_of(Costs(problem));
  ASSERT_EQ(classes.size(), 3U) << "and who holds no layer is of none";
  EXPECT_EQ(classes[0].nodes, (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(classes[1].nodes, (std::vector<std::uint32_t>{0, 1, 4}));
  EXPECT_EQ(classes[1].speed.memory, 1'000U);
  EXPECT_NEAR(classes[1].speed.layer, 3.25 / 3.0, 1e-12);
  EXPECT_EQ(classes[2].nodes, (std::vector<std::uint32_t>{3}));
}

TEST(ClassesTest, AreFewWhateverTheNodes) {
  std::vector<std::pair<double, std::uint64_t>> nodes;
  for (int i = 0; i < 100; ++i) nodes.emplace_back(1.0 + i * i, 100 + 50 * ((i * 37) % 100));
  const Problem problem = swarm(nodes, 4);
  const auto classes = classes_of(Costs(problem));
  EXPECT_LE(classes.size(), kMaxClasses);
  std::set<std::uint32_t> named;
  for (const NodeClass& one : classes) named.insert(one.nodes.begin(), one.nodes.end());
  EXPECT_EQ(named.size(), 100U);
}

TEST(ClassesTest, LayersGoToClassesByTheirSpeed) {
  // Eight that hold six layers each and eight half as fast that hold two: two thirds of twelve
  // layers, and one third.
  std::vector<std::pair<double, std::uint64_t>> nodes(8, {1.0, 600});
  nodes.insert(nodes.end(), 8, {2.0, 200});
  const Problem problem = swarm(nodes, 12);
  const Costs costs(problem);
  const auto boundaries = boundaries_for_classes(costs, classes_of(costs));
  ASSERT_GE(boundaries.size(), 4U);
  EXPECT_EQ(boundaries.front(), 0U);
  EXPECT_EQ(boundaries.back(), 12U);
  EXPECT_TRUE(std::is_sorted(boundaries.begin(), boundaries.end()));
  EXPECT_TRUE(std::count(boundaries.begin(), boundaries.end(), 4U) +
              std::count(boundaries.begin(), boundaries.end(), 8U))
      << "a third is cut off";
}

TEST(ClassesTest, WhereNoCutHoldsTheModelThereIsNone) {
  const Problem problem = swarm({{1.0, 300}, {1.0, 300}}, 8);
  const Costs costs(problem);
  EXPECT_TRUE(boundaries_for_classes(costs, classes_of(costs)).empty());
  const Problem too_small = swarm({{1.0, 50}}, 2);
  const Costs none(too_small);
  EXPECT_TRUE(boundaries_for_classes(none, classes_of(none)).empty());
  EXPECT_EQ(bound_rows_per_second(none), 0.0);
}

// Of all boundaries and all ways to give nodes to ranges the best is never above the bound.
TEST(ClassesTest, NoPlacementExceedsTheBound) {
  double closest = 0.0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Problem problem = random_swarm(seed, {1, 5, 4, 3});
    const double most = most_rows_per_second(problem);
    const double bound = bound_rows_per_second(Costs(problem));
    ASSERT_LE(most, bound * (1.0 + 1e-9)) << "seed " << seed;
    if (bound > 0.0) closest = std::max(closest, most / bound);
  }
  EXPECT_GT(closest, 0.999) << "and it is reached";
}

}  // namespace
}  // namespace hearth::placement

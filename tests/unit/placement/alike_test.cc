#include "placement/alike.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "placement/plan.h"
#include "tests/unit/placement/instances.h"

namespace hearth::placement {
namespace {

// Equal machines, of which two are needed for the model.
Problem equal_machines(std::uint32_t count) {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(30, 100), 0, 0, 1'000, 0};
  problem.objective = Objective::kAuto;
  for (std::uint32_t i = 0; i < count; ++i) {
    problem.nodes.push_back(
        {"node-" + std::to_string(i), 1e-5, {1e-3, 2e-3}, {2e-3, 3e-3}, 1'600, 1'000});
  }
  problem.links.assign(std::size_t{count} * count, {2e-4, 1e8});
  return problem;
}

// Up to `share` off, either way.
void disturb(double& figure, double share, Random& random) {
  figure *= 1.0 + share * (2.0 * instances::unit(random) - 1.0);
}

Problem measured_once(const Problem& problem, Random& random) {
  Problem noisy = problem;
  for (Node& node : noisy.nodes) {
    for (double* figure : {&node.step_seconds, &node.layer.one, &node.layer.batch, &node.head.one,
                           &node.head.batch}) {
      disturb(*figure, 0.08, random);
    }
  }
  for (Link& link : noisy.links) {
    disturb(link.delay_seconds, 0.15, random);
    disturb(link.bytes_per_second, 0.15, random);
  }
  return noisy;
}

TEST(AlikeTest, EqualMachinesGetOnePlanHoweverTheyWereMeasured) {
  const Problem problem = equal_machines(4);
  const auto expected = place(with_alike_figures(problem));
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ(expected->size(), 2U);
  SeededRandom random(5);
  bool any_differs = false;  // without it
  for (int i = 0; i < 100; ++i) {
    const Problem noisy = measured_once(problem, random);
    const auto plan = place(with_alike_figures(noisy));
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(*plan, *expected);
    any_differs = any_differs || *place(noisy) != *expected;
  }
  EXPECT_TRUE(any_differs);
}

TEST(AlikeTest, FiguresBeyondTheFactorStay) {
  Problem problem = equal_machines(3);
  problem.nodes[1].layer.one = 1.1e-3;
  problem.nodes[2].layer.one = 4e-3;
  problem.links[1].bytes_per_second = 0.0;
  const Problem alike = with_alike_figures(problem);
  EXPECT_DOUBLE_EQ(alike.nodes[0].layer.one, 1.05e-3);
  EXPECT_DOUBLE_EQ(alike.nodes[1].layer.one, 1.05e-3);
  EXPECT_DOUBLE_EQ(alike.nodes[2].layer.one, 4e-3);
  EXPECT_EQ(alike.links[1].bytes_per_second, 0.0);
  EXPECT_DOUBLE_EQ(alike.links[2].bytes_per_second, 1e8);
}

}  // namespace
}  // namespace hearth::placement

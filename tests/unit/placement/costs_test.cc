#include "placement/costs.h"

#include <gtest/gtest.h>

#include "tests/unit/placement/instances.h"

namespace hearth::placement {
namespace {

TEST(CostsTest, AreThoseOfTheProblem) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Problem problem = instances::random_problem(seed, {4, 9, false});
    const Costs costs(problem);
    for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
      for (std::uint32_t begin = 0; begin < problem.layers(); ++begin) {
        for (std::uint32_t end = begin + 1; end <= problem.layers(); ++end) {
          const Stage stage{node, {begin, end}};
          ASSERT_EQ(costs.fits(node, stage.layers), fits(problem, stage)) << "seed " << seed;
          const double row = stage_seconds(problem, stage, 1.0);
          ASSERT_NEAR(costs.row_seconds(node, stage.layers) / row, 1.0, 1e-12);
          const double batch = std::max(stage_seconds(problem, stage, problem.batch_rows),
                                        end < problem.layers() ? costs.speed(node).bytes : 0.0);
          ASSERT_NEAR(costs.batch_seconds(node, stage.layers) / batch, 1.0, 1e-12);
        }
      }
    }
  }
}

TEST(CostsTest, TheUsualWayOutIsTheMedianOfTheLinksThatThereAre) {
  Problem problem;
  problem.model = {{100, 100}, 0, 0, 10, 0};
  problem.batch_rows = 20;
  problem.nodes.assign(5, {"n", 0.0, {1.0, 1.0}, {0.0, 0.0}, 1'000});
  problem.links.assign(25, {});
  problem.links[1] = {0.1, 10.0};
  problem.links[2] = {0.2, 100.0};
  problem.links[4] = {0.3, 1e9};
  const Costs costs(problem);
  EXPECT_DOUBLE_EQ(costs.speed(0).bytes, 2.0);
  EXPECT_DOUBLE_EQ(costs.delay(0), 0.2);
  EXPECT_DOUBLE_EQ(costs.batch_seconds(0, {0, 1}), 2.0) << "the bytes take longer than the layer";
  EXPECT_DOUBLE_EQ(costs.batch_seconds(0, {1, 2}), 1.0) << "of the last stage there are tokens";
  EXPECT_DOUBLE_EQ(costs.speed(1).bytes, 0.0);
}

}  // namespace
}  // namespace hearth::placement

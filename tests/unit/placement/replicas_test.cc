#include "placement/replicas.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/placement/swarms.h"

namespace hearth::placement {
namespace {

// Eight layers of a hundred bytes, a millisecond each.
Problem card_nodes(std::uint32_t count, std::uint64_t memory = 1'000) {
  Problem problem;
  problem.model = {std::vector<std::uint64_t>(8, 100), 0, 0, 1, 0};
  for (std::uint32_t i = 0; i < count; ++i) {
    problem.nodes.push_back({"card", 0.0, {1e-3, 1e-3}, {0.0, 0.0}, memory});
  }
  problem.links.assign(std::size_t{count} * count, {1e-4, 1e12});
  return problem;
}

const std::vector<LayerRange> kUneven = {{0, 6}, {6, 8}};

std::vector<std::uint32_t> given(const Problem& problem, const std::vector<LayerRange>& ranges) {
  return replicate(Costs(problem), ranges,
                   std::vector<std::uint32_t>(problem.nodes.size(), kNoRange));
}

TEST(ReplicasTest, AreInProportion) {
  const auto ranges = given(card_nodes(8), kUneven);
  EXPECT_EQ(std::count(ranges.begin(), ranges.end(), 0U), 6);
  EXPECT_EQ(std::count(ranges.begin(), ranges.end(), 1U), 2);
}

TEST(ReplicasTest, WhoHoldsFewRangesChoosesFirst) {
  Problem problem = card_nodes(4);
  for (const std::uint32_t small : {0U, 2U}) problem.nodes[small].memory_bytes = 200;
  EXPECT_EQ(given(problem, kUneven), (std::vector<std::uint32_t>{1, 0, 1, 0}));
  problem.nodes[2].memory_bytes = 199;
  EXPECT_EQ(given(problem, kUneven)[2], kNoRange);
}

// Giving alone leaves some swarms in which one node would be of more use elsewhere.
TEST(ReplicasTest, NoNodeWouldBeOfMoreUseToTheSlowestRange) {
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    const Problem problem = instances::random_swarm(seed, {4, 20, 6, 4, 0.5});
    const Costs costs(problem);
    const std::uint32_t middle = (problem.layers() + 2) / 3;
    if (middle == problem.layers()) continue;
    const std::vector<LayerRange> ranges = {{0, middle}, {middle, problem.layers()}};
    const auto range_of = given(problem, ranges);
    const auto rate = [&](std::uint32_t node, std::uint32_t range) {
      return costs.fits(node, ranges[range]) ? 1.0 / costs.batch_seconds(node, ranges[range]) : 0.0;
    };
    double rates[2] = {0.0, 0.0};
    for (std::uint32_t node = 0; node < range_of.size(); ++node) {
      if (range_of[node] != kNoRange) rates[range_of[node]] += rate(node, range_of[node]);
    }
    const std::uint32_t slowest = rates[0] <= rates[1] ? 0 : 1;
    for (std::uint32_t node = 0; node < range_of.size(); ++node) {
      if (range_of[node] != 1 - slowest || rate(node, slowest) == 0.0) continue;
      const double after = std::min(rates[slowest] + rate(node, slowest),
                                    rates[1 - slowest] - rate(node, 1 - slowest));
      ASSERT_LE(after, rates[slowest] * (1.0 + 1e-6)) << "seed " << seed;
    }
  }
}

TEST(ReplicasTest, WhoHasARangeKeepsIt) {
  const Problem problem = card_nodes(8);
  std::vector<std::uint32_t> taken(8, kNoRange);
  for (std::uint32_t i = 0; i < 4; ++i) taken[i] = 1;
  const auto ranges = replicate(Costs(problem), kUneven, taken);
  EXPECT_EQ(ranges, (std::vector<std::uint32_t>{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(ReplicasTest, WhoHasNoLinkToANeighbourHasNoRange) {
  Problem problem = card_nodes(4);
  for (std::uint32_t to = 0; to < 4; ++to) problem.links[3 * 4 + to].bytes_per_second = 0.0;
  const auto ranges = given(problem, {{0, 4}, {4, 8}});
  EXPECT_EQ(ranges[3], kNoRange);
  EXPECT_EQ(std::count(ranges.begin(), ranges.end(), kNoRange), 1);
  EXPECT_EQ(given(problem, {{0, 8}})[3], 0U) << "alone it needs none";
}

TEST(ReplicasTest, TheQuickestForEachRange) {
  Problem problem = card_nodes(4);
  problem.nodes[2].layer.one = 0.5e-3;
  problem.nodes[2].memory_bytes = 200;
  problem.nodes[3].layer.one = 0.8e-3;
  EXPECT_EQ(quickest_each(Costs(problem), kUneven),
            (std::vector<std::uint32_t>{kNoRange, kNoRange, 1, 0}));
}

}  // namespace
}  // namespace hearth::placement

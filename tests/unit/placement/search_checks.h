// What every search for a placement keeps.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "placement/problem.h"
#include "tests/unit/placement/instances.h"

namespace hearth::placement::instances {

inline void check_shape(const Problem& problem, const std::vector<Stage>& stages) {
  std::set<std::uint32_t> nodes;
  std::uint32_t begin = 0;
  for (const Stage& stage : stages) {
    ASSERT_TRUE(nodes.insert(stage.node).second);
    ASSERT_EQ(stage.layers.begin, begin);
    ASSERT_GT(stage.layers.end, begin);
    ASSERT_TRUE(fits(problem, stage));
    begin = stage.layers.end;
  }
  ASSERT_EQ(begin, problem.layers());
  ASSERT_TRUE(linked(problem, stages));
  if (problem.stages > 0) {
    ASSERT_EQ(stages.size(), problem.stages);
  }
}

// A node that must take part does, and the whole is no quicker for it. `search`: with the set of
// those that must.
inline void check_must(
    const Problem& problem,
    const std::function<std::optional<std::vector<Stage>>(std::uint32_t must)>& search) {
  const auto free = search(0);
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const auto stages = search(1U << node);
    if (!stages) continue;
    ASSERT_TRUE(free.has_value());
    check_shape(problem, *stages);
    ASSERT_TRUE(std::any_of(stages->begin(), stages->end(),
                            [&](const Stage& stage) { return stage.node == node; }));
    ASSERT_GE(cost_seconds(problem, *stages), cost_seconds(problem, *free) * (1.0 - 1e-4));
  }
}

}  // namespace hearth::placement::instances

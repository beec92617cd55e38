// Random small problems from seeds, and every placement of one, tried.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "placement/problem.h"

namespace hearth::placement::instances {

inline double unit(Random& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }
inline std::uint32_t below(Random& random, std::uint32_t bound) {
  return static_cast<std::uint32_t>(random.next() % bound);
}

struct Bounds {
  std::uint32_t nodes = 5;
  std::uint32_t layers = 7;
  bool equal_layers = true;
};

// Slow and fast nodes, tight and ample memory, links from hopeless to none at all.
inline Problem random_problem(std::uint64_t seed, const Bounds& bounds) {
  SeededRandom random(seed);
  Problem problem;
  const std::uint32_t layers = 1 + below(random, bounds.layers);
  const std::uint64_t each = 100 + below(random, 100);
  for (std::uint32_t i = 0; i < layers; ++i) {
    problem.model.layer_bytes.push_back(bounds.equal_layers ? each : each + below(random, 60));
  }
  problem.model.embedding_bytes = below(random, 200);
  problem.model.head_bytes = below(random, 200);
  problem.model.activation_bytes = 1 + below(random, 1'000);
  problem.model.kv_bytes = below(random, 3);
  for (std::uint32_t i = 0; i < layers && !bounds.equal_layers; ++i) {
    problem.model.layer_kv.push_back({below(random, 3), below(random, 3) == 0 ? 40U : 0U});
  }
  problem.kv_tokens = below(random, 40);
  problem.batch_rows = 2 + below(random, 15);
  problem.objective = below(random, 2) == 0 ? Objective::kLatency : Objective::kThroughput;
  const std::uint32_t count = 1 + below(random, bounds.nodes);
  if (below(random, 4) == 0) problem.stages = 1 + below(random, std::min(count, layers));
  const double hop = std::pow(10.0, -5.0 + 4.0 * unit(random));
  for (std::uint32_t i = 0; i < count; ++i) {
    Node node;
    node.name = "n" + std::to_string(i);
    node.step_seconds = below(random, 3) == 0 ? 1e-3 * unit(random) : 0.0;
    node.layer.one = 1e-3 * (0.2 + unit(random));
    node.layer.batch = node.layer.one * (1.0 + 4.0 * unit(random));
    node.head.one = 1e-3 * unit(random);
    node.head.batch = node.head.one * (1.0 + 4.0 * unit(random));
    node.memory_bytes = below(random, 3) == 0 ? 1'000'000 : below(random, 1'500);
    if (below(random, 4) == 0) node.kv_budget_bytes = below(random, 500);
    problem.nodes.push_back(node);
  }
  for (std::uint32_t i = 0; i < count * count; ++i) {
    const bool there = below(random, 10) != 0;
    problem.links.push_back(
        {hop * unit(random), there ? 1e5 * (0.1 + unit(random)) / hop / 1e3 : 0.0});
  }
  return problem;
}

inline bool linked(const Problem& problem, const std::vector<Stage>& stages) {
  for (std::size_t i = 0; i < stages.size() && stages.size() > 1; ++i) {
    const Stage& next = stages[(i + 1) % stages.size()];
    if (problem.link(stages[i].node, next.node).bytes_per_second == 0.0) return false;
  }
  return true;
}

// Of every order of every set of nodes and every split; infinity where nothing fits.
inline double least_cost(const Problem& problem) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<Stage> stages;
  std::vector<bool> used(problem.nodes.size());
  const std::function<void(std::uint32_t)> extend = [&](std::uint32_t begin) {
    if (begin == problem.layers()) {
      const bool wanted = problem.stages == 0 || problem.stages == stages.size();
      if (wanted && linked(problem, stages)) {
        least = std::min(least, cost_seconds(problem, stages));
      }
      return;
    }
    for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
      if (used[node]) continue;
      used[node] = true;
      for (std::uint32_t end = begin + 1; end <= problem.layers(); ++end) {
        stages.push_back({node, {begin, end}});
        if (fits(problem, stages.back())) extend(end);
        stages.pop_back();
      }
      used[node] = false;
    }
  };
  extend(0);
  return least;
}

}  // namespace hearth::placement::instances

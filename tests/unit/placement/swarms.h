// Random swarms from seeds: nodes of a few kinds on links that are alike, and every placement of a
// small one with replicas, tried.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "placement/problem.h"
#include "tests/unit/placement/instances.h"

namespace hearth::placement::instances {

struct SwarmBounds {
  std::uint32_t nodes_least = 1;
  std::uint32_t nodes = 5;
  std::uint32_t layers = 5;
  std::uint32_t kinds = 3;
  double noise = 0.05;  // of a node against its kind
};

inline Problem random_swarm(std::uint64_t seed, const SwarmBounds& bounds) {
  SeededRandom random(seed);
  Problem problem;
  problem.objective = Objective::kThroughput;
  problem.batch_rows = 2 + below(random, 15);
  problem.model.layer_bytes.assign(1 + below(random, bounds.layers), 100 + below(random, 100));
  problem.model.embedding_bytes = below(random, 100);
  problem.model.head_bytes = below(random, 100);
  problem.model.activation_bytes = 1 + below(random, 1'000);
  problem.model.kv_bytes = below(random, 3);
  problem.kv_tokens = below(random, 20);
  const bool step = below(random, 2) == 0;
  std::vector<Node> kinds;
  for (std::uint32_t i = 0; i < bounds.kinds; ++i) {
    Node kind;
    kind.step_seconds = step ? 3e-4 * unit(random) : 0.0;
    kind.layer.one = 1e-3 * std::pow(10.0, -unit(random));
    kind.layer.batch = kind.layer.one * (1.0 + 3.0 * unit(random));
    kind.head = {kind.layer.one * unit(random), kind.layer.batch * unit(random)};
    kind.memory_bytes = 250 + below(random, 300 * problem.layers());
    kinds.push_back(kind);
  }
  const std::uint32_t count =
      bounds.nodes_least + below(random, bounds.nodes - bounds.nodes_least + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    Node node = kinds[below(random, bounds.kinds)];
    node.name = "n" + std::to_string(i);
    const double off = 1.0 + bounds.noise * unit(random);
    node.layer = {node.layer.one * off, node.layer.batch * off};
    problem.nodes.push_back(node);
  }
  problem.links.assign(std::size_t{count} * count, {1e-4 * unit(random), 1e9});
  return problem;
}

// Rows a second of the slowest range, of the best of all cuts with all ways to give nodes to
// ranges; 0 where none covers every layer.
inline double most_rows_per_second(const Problem& problem) {
  double most = 0.0;
  std::vector<LayerRange> ranges;
  std::vector<double> rates;
  const std::function<void(std::uint32_t)> give = [&](std::uint32_t node) {
    if (node == problem.nodes.size()) {
      most = std::max(most, *std::min_element(rates.begin(), rates.end()));
      return;
    }
    give(node + 1);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const Stage stage{node, ranges[i]};
      if (!fits(problem, stage)) continue;
      const double before = rates[i];
      rates[i] += problem.batch_rows / stage_seconds(problem, stage, problem.batch_rows);
      give(node + 1);
      rates[i] = before;
    }
  };
  const std::function<void(std::uint32_t)> cut = [&](std::uint32_t begin) {
    if (begin == problem.layers()) {
      if (ranges.size() > problem.nodes.size()) return;
      rates.assign(ranges.size(), 0.0);
      return give(0);
    }
    for (std::uint32_t end = begin + 1; end <= problem.layers(); ++end) {
      ranges.push_back({begin, end});
      cut(end);
      ranges.pop_back();
    }
  };
  cut(0);
  return most;
}

}  // namespace hearth::placement::instances

#include "placement/shortage.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace hearth::placement {
namespace {

// The sum of the largest ones, as many as stages were asked for.
std::uint64_t sum_of_stages(const Problem& problem, std::vector<std::uint64_t> of_nodes) {
  INVARIANT(of_nodes.size() == problem.nodes.size(), "every node counts once");
  std::ranges::sort(of_nodes, std::greater<>());
  if (problem.stages > 0 && problem.stages < of_nodes.size()) of_nodes.resize(problem.stages);
  return std::accumulate(of_nodes.begin(), of_nodes.end(), std::uint64_t{0});
}

std::uint64_t kv_layers(const Problem& problem) {
  const LayerRange whole{0, problem.layers()};
  const std::uint64_t each =
      problem.model.kv_of(whole).of(problem.kv_tokens) / whole.size();  // mean
  if (each == 0) return problem.layers();
  std::vector<std::uint64_t> layers;
  for (const Node& node : problem.nodes) {
    layers.push_back(std::min<std::uint64_t>(node.kv_budget_bytes / each, problem.layers()));
  }
  return sum_of_stages(problem, std::move(layers));
}

bool all_linked(const Problem& problem) {
  for (std::uint32_t from = 0; from < problem.nodes.size(); ++from) {
    for (std::uint32_t to = 0; to < problem.nodes.size(); ++to) {
      if (from != to && problem.link(from, to).bytes_per_second <= 0.0) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Spare> holds_no_layer(const Problem& problem, std::uint32_t node) {
  INVARIANT(node < problem.nodes.size(), "a spare is one of the problem's nodes");
  const auto& bytes = problem.model.layer_bytes;
  std::uint64_t kv = std::numeric_limits<std::uint64_t>::max();  // the least of a layer
  std::uint64_t layer = kv;                                      // likewise, with its weights
  for (std::uint32_t i = 0; i < problem.layers(); ++i) {
    const std::uint64_t keeps = problem.model.kv_of({i, i + 1}).of(problem.kv_tokens);
    kv = std::min(kv, keeps);
    layer = std::min(layer, bytes[i] + keeps);
  }
  if (problem.nodes[node].memory_bytes < layer) return Spare{node, SpareReason::kMemory, layer};
  if (problem.nodes[node].kv_budget_bytes < kv) return Spare{node, SpareReason::kKvBudget, kv};
  return std::nullopt;
}

Shortage shortage_of(const Problem& problem) {
  std::vector<std::uint64_t> memory;
  for (const Node& node : problem.nodes) memory.push_back(node.memory_bytes);
  Shortage shortage;
  shortage.model_bytes = stage_bytes(problem, {0, problem.layers()});
  shortage.memory_bytes = std::accumulate(memory.begin(), memory.end(), std::uint64_t{0});
  shortage.kv_layers = kv_layers(problem);
  if (problem.stages > problem.nodes.size()) {
    shortage.of = Shortage::Of::kNodes;
  } else if (shortage.kv_layers < problem.layers()) {
    shortage.of = Shortage::Of::kKvBudgets;
  } else if (shortage.memory_bytes < shortage.model_bytes) {
    shortage.of = Shortage::Of::kMemory;
  } else if (sum_of_stages(problem, memory) < shortage.model_bytes) {
    shortage.of = Shortage::Of::kStageMemory;
  } else {
    shortage.of = all_linked(problem) ? Shortage::Of::kWholeLayers : Shortage::Of::kLinks;
  }
  return shortage;
}

Error no_placement(const Problem& problem) {
  return Error::of(ErrorCode::kNoCapacity, "the ", problem.nodes.size(), " nodes do not hold the ",
                   problem.layers(), " layers of the model");
}

}  // namespace hearth::placement

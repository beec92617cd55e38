#include "placement/words.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>

namespace hearth::placement {
namespace {

constexpr std::size_t kImprovements = 3;

// That the KV budgets hold of all nodes, or of as many stages as were asked for, the largest.
std::uint64_t kv_layers(const Problem& problem) {
  const std::uint64_t each = problem.model.kv_bytes * problem.kv_tokens;
  if (each == 0) return problem.layers();
  std::vector<std::uint64_t> layers;
  for (const Node& node : problem.nodes) {
    layers.push_back(std::min<std::uint64_t>(node.kv_budget_bytes / each, problem.layers()));
  }
  std::sort(layers.begin(), layers.end(), std::greater<>());
  if (problem.stages > 0 && problem.stages < layers.size()) layers.resize(problem.stages);
  return std::accumulate(layers.begin(), layers.end(), std::uint64_t{0});
}

}  // namespace

std::string rate_text(double tokens_per_second) {
  char text[32];
  std::snprintf(text, sizeof text, tokens_per_second < 100.0 ? "%.1f" : "%.0f", tokens_per_second);
  return text;
}

std::string gigabytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

std::optional<std::string> why_no_layer(const Problem& problem, std::uint32_t node) {
  const auto& bytes = problem.model.layer_bytes;
  const std::uint64_t layer =
      *std::min_element(bytes.begin(), bytes.end()) + problem.model.kv_bytes * problem.kv_tokens;
  const std::uint64_t memory = problem.nodes[node].memory_bytes;
  if (memory < layer) {
    return "its " + gigabytes(memory) + " of memory hold no layer of " + gigabytes(layer);
  }
  const std::uint64_t kv = problem.model.kv_bytes * problem.kv_tokens;
  if (problem.nodes[node].kv_budget_bytes < kv) {
    return "its KV budget of " + gigabytes(problem.nodes[node].kv_budget_bytes) +
           " holds no layer's " + gigabytes(kv) + " of " + std::to_string(problem.kv_tokens) +
           " positions";
  }
  return std::nullopt;
}

namespace {

// Whether stages would hold the model if every node were linked to every other and could be any of
// them: with so many stages as were asked for, of the nodes with the most memory.
bool roomy(const Problem& problem) {
  std::vector<std::uint64_t> memory;
  for (const Node& node : problem.nodes) memory.push_back(node.memory_bytes);
  std::sort(memory.begin(), memory.end(), std::greater<>());
  if (problem.stages > 0 && problem.stages < memory.size()) memory.resize(problem.stages);
  return std::accumulate(memory.begin(), memory.end(), std::uint64_t{0}) >=
         stage_bytes(problem, {0, problem.layers()});
}

bool all_linked(const Problem& problem) {
  for (std::uint32_t from = 0; from < problem.nodes.size(); ++from) {
    for (std::uint32_t to = 0; to < problem.nodes.size(); ++to) {
      if (from != to && problem.link(from, to).bytes_per_second <= 0.0) return false;
    }
  }
  return true;
}

std::string in_stages(const Problem& problem) {
  return problem.stages == 0 ? "" : " in " + std::to_string(problem.stages) + " stages";
}

std::string why_not_held(const Problem& problem) {
  const std::string stages = in_stages(problem);
  if (!roomy(problem)) {
    return ", of which the largest do not hold them" + stages + ": ask for more stages";
  }
  if (all_linked(problem)) {
    return ", but whole layers do not go into what each node has" + stages;
  }
  return ", which no order of stages" + stages + " over links that were measured makes use of";
}

}  // namespace

Error no_room(const Problem& problem) {
  std::uint64_t there = 0;
  for (const Node& node : problem.nodes) there += node.memory_bytes;
  const std::uint64_t wanted = stage_bytes(problem, {0, problem.layers()});
  std::string why = "no placement of the " + std::to_string(problem.layers()) +
                    " layers: they take " + gigabytes(wanted) + " with KV of " +
                    std::to_string(problem.kv_tokens) + " positions, and the " +
                    std::to_string(problem.nodes.size()) + " nodes have " + gigabytes(there);
  if (problem.stages > problem.nodes.size()) {
    why = std::to_string(problem.stages) + " stages were asked for and there are " +
          std::to_string(problem.nodes.size()) + " nodes";
  } else if (kv_layers(problem) < problem.layers()) {
    why = "no placement of the " + std::to_string(problem.layers()) +
          " layers: the nodes' KV budgets hold " + std::to_string(problem.kv_tokens) +
          " positions of " + std::to_string(kv_layers(problem)) + " layers" + in_stages(problem) +
          "; ask for fewer, or start workers with a larger --kv-budget";
  } else if (there >= wanted) {
    why += why_not_held(problem);
  }
  return {ErrorCode::kNoCapacity, why};
}

void Gains::add(const std::string& change, double tokens_per_second) {
  if (tokens_per_second < kGainLeast * before_) return;
  all_.emplace_back(tokens_per_second, change + ": " + rate_text(tokens_per_second) +
                                           " instead of " + rate_text(before_) + " tokens/s");
}

std::vector<std::string> Gains::largest() const {
  auto sorted = all_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> sentences;
  for (const auto& [after, sentence] : sorted) {
    if (sentences.size() < kImprovements) sentences.push_back(sentence);
  }
  return sentences;
}

}  // namespace hearth::placement

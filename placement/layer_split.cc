#include "placement/layer_split.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace hearth::placement {
namespace {

constexpr double kNoSplit = std::numeric_limits<double>::infinity();

}  // namespace

std::vector<Stage> split_layers(const Problem& problem, const std::vector<Stage>& order) {
  const std::uint32_t layers = problem.layers();
  const bool latency = problem.objective == Objective::kLatency;
  const double rows = latency ? 1.0 : problem.batch_rows;
  const std::size_t count = order.size();
  INVARIANT(count >= 1 && count <= layers, "every stage of an order has a layer");
  // By stages and by where the layers of the last of them end.
  std::vector<std::vector<double>> cost(count + 1, std::vector<double>(layers + 1, kNoSplit));
  std::vector<std::vector<std::uint32_t>> begins(count, std::vector<std::uint32_t>(layers + 1));
  cost[0][0] = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::uint32_t end = static_cast<std::uint32_t>(i) + 1; end <= layers; ++end) {
      for (std::uint32_t begin = end; begin-- > 0;) {
        const Stage stage{order[i].node, {begin, end}};
        if (!fits(problem, stage)) break;
        if (cost[i][begin] == kNoSplit) continue;
        const double seconds = stage_seconds(problem, stage, rows);
        const double sum = latency ? cost[i][begin] + seconds : std::max(cost[i][begin], seconds);
        if (sum >= cost[i + 1][end]) continue;
        cost[i + 1][end] = sum;
        begins[i][end] = begin;
      }
    }
  }
  if (cost[count][layers] == kNoSplit) return {};
  std::vector<Stage> stages = order;
  std::uint32_t end = layers;
  for (std::size_t i = count; i-- > 0;) {
    INVARIANT(begins[i][end] < end, "a stage has a layer");
    stages[i].layers = {begins[i][end], end};
    end = begins[i][end];
  }
  INVARIANT(end == 0, "a split begins at the first layer");
  return stages;
}

}  // namespace hearth::placement

#include "coordinator/pipelines/placement_text.h"

#include <fmt/core.h>

#include <cstdint>

#include "base/ids.h"
#include "base/limits.h"

namespace hearth::coordinator {
namespace {

using placement::Problem;
using placement::Shortage;
using placement::Spare;
using placement::SpareReason;

// Two texts that differ by less are one figure.
constexpr double kAlike = 0.999;

std::string gigabytes(std::uint64_t bytes) {
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

std::string rates_text(const Spare& spare) {
  return rate_text(spare.with_tokens_per_second) + " instead of " +
         rate_text(spare.tokens_per_second) + " tokens/s";
}

std::string comparison_text(const Spare& spare) {
  const bool slower = spare.with_tokens_per_second < kAlike * spare.tokens_per_second;
  return std::string(slower ? "slower" : "no quicker") + ": " + rates_text(spare);
}

std::string stages_text(const Problem& problem) {
  return problem.stages == 0 ? "" : " in " + counted(problem.stages, "stage");
}

}  // namespace

std::string rate_text(double tokens_per_second) {
  return fmt::format("{:.{}f}", tokens_per_second, tokens_per_second < 99.95 ? 1 : 0);
}

std::string spare_text(const Problem& problem, const Spare& spare) {
  const placement::Node& node = problem.nodes[spare.node];
  const std::string memory = "its memory of " + gigabytes(node.memory_bytes);
  switch (spare.reason) {
    case SpareReason::kNotSearched:
      return message_of("not considered: the exact search takes ", limits::kExactNodes, " of ",
                        problem.nodes.size(), " nodes");
    case SpareReason::kMemory:
      return memory + " holds no layer; the smallest layer takes " + gigabytes(spare.bytes);
    case SpareReason::kKvBudget:
      return "its KV budget of " + gigabytes(node.kv_budget_bytes) + " is too small for " +
             std::to_string(problem.kv_tokens) + " positions of one layer, which take " +
             gigabytes(spare.bytes);
    case SpareReason::kRangeMemory:
      return memory + " holds none of the layer ranges; the smallest range takes " +
             gigabytes(spare.bytes);
    case SpareReason::kNotLinked:
      return "no pipeline with it holds the model over the measured links";
    case SpareReason::kRangeLinks:
      return "no measured link joins it to the replicas before and after it";
    case SpareReason::kAdded: return "adding it makes the pipeline " + comparison_text(spare);
    case SpareReason::kExchanged:
      return "using it in place of another node makes the pipeline " + comparison_text(spare);
    case SpareReason::kDetour: return "a stream through it would be too slow: " + rates_text(spare);
  }
  return "";
}

std::string shortage_text(const Problem& problem) {
  const Shortage shortage = placement::shortage_of(problem);
  const std::string nodes = std::to_string(problem.nodes.size()) + " nodes";
  const std::string stages = stages_text(problem);
  const std::string need = "no placement of the " + std::to_string(problem.layers()) + " layers: ";
  const std::string positions = std::to_string(problem.kv_tokens) + " positions";
  const std::string figures = need + "they take " + gigabytes(shortage.model_bytes) +
                              " with KV of " + positions + ", and the " + nodes + " have " +
                              gigabytes(shortage.memory_bytes);
  switch (shortage.of) {
    case Shortage::Of::kNodes:
      return message_of(problem.stages, " stages need ", problem.stages, " nodes, and there are ",
                        problem.nodes.size(), "; ask for fewer stages or add nodes");
    case Shortage::Of::kKvBudgets:
      return need + "the nodes' KV budgets hold " + positions + " of " +
             std::to_string(shortage.kv_layers) + " layers" + stages +
             "; ask for fewer positions, or start workers with a larger --kv-budget";
    case Shortage::Of::kMemory:
      return figures + "; add nodes or memory, or ask for fewer positions";
    case Shortage::Of::kStageMemory:
      return figures + ", but the largest of them do not hold them" + stages +
             "; ask for more stages";
    case Shortage::Of::kWholeLayers:
      return figures + ", but whole layers do not fit into what each node has" + stages +
             "; add memory, or ask for fewer positions";
    case Shortage::Of::kLinks:
      return figures + ", but no order of stages" + stages + " over the measured links uses it" +
             "; check which links are missing in `hearth status`";
  }
  return "";
}

Error placement_error(const Problem& problem, const Error& error) {
  if (error.code != ErrorCode::kNoCapacity) return error;
  return {error.code, shortage_text(problem)};
}

}  // namespace hearth::coordinator

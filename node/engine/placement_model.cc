#include "node/engine/placement_model.h"

#include <algorithm>

#include "base/limits.h"
#include "kernels/canonical.h"
#include "node/engine/stage_memory.h"
#include "node/engine/weights.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

// Bytes of a row beside its activations: sequence, position, token, flags.
constexpr std::uint64_t kRowBytes = 24;

}  // namespace

Result<placement::Model> placement_model(const model::GgufFile& file,
                                         const model::ModelSpec& spec) {
  placement::Model model;
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    TRY(model.layer_bytes.emplace_back(), StageWeights::layer_bytes_of(file, spec, layer));
    if (spec.experts == 0) continue;
    TRY(model.layer_read_bytes.emplace_back(),
        StageWeights::layer_read_bytes_of(file, spec, layer));
  }
  // In a model of one layer, everything outside it counts as the embedding, so that nothing counts
  // twice.
  TRY(const std::uint64_t first, StageWeights::bytes_of(file, spec, {0, 1}));
  model.embedding_bytes = first - model.layer_bytes.front();
  if (spec.layers > 1) {
    TRY(const std::uint64_t last,
        StageWeights::bytes_of(file, spec, {spec.layers - 1, spec.layers}));
    model.head_bytes = last - model.layer_bytes.back();
  }
  model.activation_bytes = std::uint64_t{spec.hidden} * 2 + kRowBytes;
  // The most of a layer: where some keep a state, which no position adds to, one sequence of the
  // usual length has it.
  const std::uint32_t usual = std::min(spec.context, limits::kDefaultMaxTokens);
  const std::uint64_t pages = pages_for(usual, kernels::kPageTokens);
  const std::uint64_t positions = pages * kernels::kPageTokens;
  model.kv_bytes = (kv_budget_of(spec, 1, pages, 1) + positions - 1) / positions;
  return model;
}

}  // namespace hearth::node

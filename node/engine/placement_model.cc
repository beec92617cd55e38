#include "node/engine/placement_model.h"

#include "kernels/canonical.h"
#include "node/engine/delta_net.h"
#include "node/engine/kv_cache.h"
#include "node/engine/weights.h"

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
  const std::uint64_t page = KvCache::page_bytes(1, spec.kv_layout());
  model.kv_bytes = (page + kernels::kPageTokens - 1) / kernels::kPageTokens;
  if (!spec.keeps_state()) return model;
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    const std::uint64_t state = DeltaNet::state_bytes(spec, {layer, layer + 1});
    model.layer_kv.push_back({state > 0 ? 0 : model.kv_bytes, state});
  }
  return model;
}

}  // namespace hearth::node

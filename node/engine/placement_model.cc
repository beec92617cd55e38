#include "node/engine/placement_model.h"

#include <algorithm>

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
  std::vector<placement::KvBytes> layers;
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    const LayerRange one{layer, layer + 1};
    const std::uint64_t page = KvCache::page_bytes(spec.kv_layouts(one));
    layers.push_back({(page + kernels::kPageTokens - 1) / kernels::kPageTokens,
                      DeltaNet::state_bytes(spec, one)});
  }
  const placement::KvBytes& first_layer = layers.front();
  if (first_layer.state == 0 && std::ranges::count(layers, first_layer) == spec.layers) {
    model.kv_bytes = first_layer.position;
  } else {
    model.layer_kv = std::move(layers);
  }
  model.is_whole = spec.is_whole();
  return model;
}

}  // namespace hearth::node

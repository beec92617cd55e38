#include "node/engine/placement_model.h"

#include <algorithm>
#include <array>

#include "kernels/canonical.h"
#include "node/engine/delta_net.h"
#include "node/engine/kv_cache.h"
#include "node/engine/ranks/share.h"
#include "node/engine/weights.h"

namespace hearth::node {
namespace {

// Bytes of a row beside its activations: sequence, position, token, flags.
constexpr std::uint64_t kRowBytes = 24;

// Weights of a layer that a row reads, without norms.
double weights_read(const model::ModelSpec& spec) {
  const double hidden = spec.hidden;
  const double queries = 2.0 * spec.widest_queries();  // and the output
  const double keys = 2.0 * spec.kv_heads * spec.head_dim;
  return hidden * (queries + keys + 3.0 * static_cast<double>(spec.feed_forward_values()));
}

// As node/engine/ranks/rank_rows.h sends them: int8 values with a scale of 32 bits for each block,
// rounded residuals of 16 bits, and additions to the residual of 32 bits where attn_output is
// divided.
placement::Exchanges exchanges_of(const model::ModelSpec& spec) {
  constexpr std::array<std::uint32_t, 2> kEven{1, 1};
  const auto shares = divide(spec, kEven);
  if (!shares.ok()) return {};
  const std::uint64_t values = spec.widest_queries() + spec.feed_forward_values();
  placement::Exchanges exchanges;
  exchanges.of_layer = 3;
  exchanges.layer_bytes = values + values / kernels::kBlock * sizeof(float) + 2 * spec.hidden;
  exchanges.head_bytes = std::uint64_t{spec.vocabulary} * sizeof(float);
  if (shares->front().whole_attention_output) {
    exchanges.whole_part = double{1.0} * spec.hidden * spec.widest_queries() / weights_read(spec);
  } else {
    exchanges.of_layer += 1;
    exchanges.layer_bytes += std::uint64_t{spec.hidden} * sizeof(float);
  }
  return exchanges;
}

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
  model.exchanges = exchanges_of(spec);
  return model;
}

}  // namespace hearth::node

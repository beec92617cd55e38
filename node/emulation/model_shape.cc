#include "node/emulation/model_shape.h"

#include "base/check.h"
#include "model/gguf/manifest.h"

namespace hearth::node {
namespace {

constexpr std::string_view kEmbedding = "token_embd.weight";

// The tensors of the layers alone.
std::uint64_t layer_file_bytes(const model::GgufFile& file, LayerRange layers) {
  std::uint64_t bytes = 0;
  for (const model::TensorInfo& tensor : file.tensors()) {
    const auto layer = model::layer_of(tensor.name);
    if (layer && *layer >= layers.begin && *layer < layers.end) bytes += tensor.bytes;
  }
  return bytes;
}

}  // namespace

placement::Shape shape_of(const model::ModelSpec& spec, const std::string& key) {
  placement::Shape shape;
  shape.key = key;
  shape.title = spec.name.empty() ? key : spec.name;
  shape.layers = spec.layers;
  shape.hidden = spec.hidden;
  shape.heads = spec.heads;
  shape.kv_heads = spec.kv_heads;
  shape.head_dim = spec.head_dim;
  shape.feed_forward = spec.feed_forward;
  shape.experts = spec.experts;
  shape.experts_used = spec.experts_used;
  shape.shared_feed_forward = spec.shared_feed_forward;
  shape.vocabulary = spec.vocabulary;
  shape.context = spec.context;
  shape.tied = spec.tied_embeddings;
  return shape;
}

std::uint64_t file_bytes_of(const model::GgufFile& file, const model::ModelSpec& spec,
                            LayerRange layers) {
  INVARIANT(layers.end <= spec.layers, "a stage's layers are the model's");
  std::uint64_t bytes = layer_file_bytes(file, layers);
  const bool first = layers.begin == 0;
  const bool last = layers.end == spec.layers;
  for (const model::TensorInfo& tensor : file.tensors()) {
    if (model::layer_of(tensor.name)) continue;
    const bool embedding = tensor.name == kEmbedding;
    const bool is_head = tensor.name.starts_with("output") || (embedding && spec.tied_embeddings);
    if ((first && embedding) || (last && is_head)) bytes += tensor.bytes;
  }
  return bytes;
}

double weight_bits_of(const model::GgufFile& file, const model::ModelSpec& spec) {
  const placement::Shape shape = shape_of(spec, "");
  const double parameters = shape.layers * layer_parameters(shape);
  INVARIANT(parameters > 0.0, "a checked model has layers");
  return 8.0 * static_cast<double>(layer_file_bytes(file, {0, spec.layers})) / parameters;
}

}  // namespace hearth::node

#include "node/engine/weights.h"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

namespace hearth::node {
namespace {

using kernels::PackedMatrix;

class Reader {
 public:
  Reader(const model::GgufFile& file, const model::ModelSpec& spec) : file_(file), spec_(spec) {}

  Status matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols,
                PackedMatrix& out) const {
    TRY(const model::TensorInfo* tensor, model::require_tensor(file_, name, {cols, rows}));
    TRY(const kernels::WeightType type, model::weight_type(tensor->type, name));
    auto packed = PackedMatrix::pack(type, rows, cols, file_.tensor_bytes(*tensor));
    if (!packed.ok()) {
      return Error{packed.error().code, "tensor " + name + ": " + packed.error().message};
    }
    out = std::move(packed).value();
    return ok_status();
  }

  Status vector(const std::string& name, std::uint32_t size, std::vector<float>& out) const {
    TRY(const model::TensorInfo* tensor, model::require_tensor(file_, name, {size}));
    REQUIRE(tensor->type == model::TensorType::kF32, "tensor " + name + " is not F32");
    out.resize(size);
    std::memcpy(out.data(), file_.tensor_bytes(*tensor).data(), size * sizeof(float));
    for (std::uint32_t i = 0; i < size; ++i) {
      REQUIRE(std::isfinite(out[i]),
              "tensor " + name + ": value " + std::to_string(i) + " is not finite");
    }
    return ok_status();
  }

  Status layer(std::uint32_t index, LayerWeights& out) const {
    const std::uint32_t hidden = spec_.hidden;
    const std::uint32_t wide = spec_.heads * spec_.head_dim;
    const std::uint32_t narrow = spec_.kv_heads * spec_.head_dim;
    const auto name = [&](std::string_view part) { return model::layer_tensor(index, part); };
    TRY_VOID(vector(name("attn_norm.weight"), hidden, out.attention_norm));
    TRY_VOID(matrix(name("attn_q.weight"), wide, hidden, out.query));
    TRY_VOID(matrix(name("attn_k.weight"), narrow, hidden, out.key));
    TRY_VOID(matrix(name("attn_v.weight"), narrow, hidden, out.value));
    if (spec_.family->qkv_bias) {
      TRY_VOID(vector(name("attn_q.bias"), wide, out.query_bias));
      TRY_VOID(vector(name("attn_k.bias"), narrow, out.key_bias));
      TRY_VOID(vector(name("attn_v.bias"), narrow, out.value_bias));
    }
    if (spec_.family->qk_norm) {
      TRY_VOID(vector(name("attn_q_norm.weight"), spec_.head_dim, out.query_norm));
      TRY_VOID(vector(name("attn_k_norm.weight"), spec_.head_dim, out.key_norm));
    }
    TRY_VOID(matrix(name("attn_output.weight"), hidden, wide, out.attention_output));
    if (spec_.family->post_norms) {
      TRY_VOID(vector(name("post_attention_norm.weight"), hidden, out.post_attention_norm));
      TRY_VOID(vector(name("post_ffw_norm.weight"), hidden, out.post_feed_forward_norm));
    }
    TRY_VOID(vector(name("ffn_norm.weight"), hidden, out.feed_forward_norm));
    TRY_VOID(matrix(name("ffn_gate.weight"), spec_.feed_forward, hidden, out.gate));
    TRY_VOID(matrix(name("ffn_up.weight"), spec_.feed_forward, hidden, out.up));
    return matrix(name("ffn_down.weight"), hidden, spec_.feed_forward, out.down);
  }

 private:
  const model::GgufFile& file_;
  const model::ModelSpec& spec_;
};

std::size_t bytes_of(const LayerWeights& layer) {
  std::size_t values = 0;
  for (const std::vector<float>* vector :
       {&layer.attention_norm, &layer.query_bias, &layer.key_bias, &layer.value_bias,
        &layer.query_norm, &layer.key_norm, &layer.post_attention_norm, &layer.feed_forward_norm,
        &layer.post_feed_forward_norm}) {
    values += vector->size();
  }
  return values * sizeof(float) + layer.query.bytes() + layer.key.bytes() + layer.value.bytes() +
         layer.attention_output.bytes() + layer.gate.bytes() + layer.up.bytes() +
         layer.down.bytes();
}

}  // namespace

std::size_t StageWeights::bytes() const {
  std::size_t sum = embedding.bytes() + head.bytes() + output_norm.size() * sizeof(float);
  for (const LayerWeights& layer : layers) sum += bytes_of(layer);
  return sum;
}

Result<StageWeights> StageWeights::load(const model::GgufFile& file, const model::ModelSpec& spec,
                                        LayerRange layers) {
  const Reader reader(file, spec);
  const std::string embedding = "token_embd.weight";
  StageWeights weights;
  const bool first = layers.begin == 0;
  if (first) {
    TRY_VOID(reader.matrix(embedding, spec.vocabulary, spec.hidden, weights.embedding));
  }
  for (std::uint32_t i = layers.begin; i < layers.end; ++i) {
    TRY_VOID(reader.layer(i, weights.layers.emplace_back()));
  }
  if (layers.end == spec.layers) {
    TRY_VOID(reader.vector("output_norm.weight", spec.hidden, weights.output_norm));
    weights.head_is_embedding = first && spec.tied_embeddings;
    if (!weights.head_is_embedding) {
      TRY_VOID(reader.matrix(spec.tied_embeddings ? embedding : "output.weight", spec.vocabulary,
                             spec.hidden, weights.head));
    }
  }
  return weights;
}

}  // namespace hearth::node

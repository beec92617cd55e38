// The tensors of one stage by their places in the model, whatever holds them, and in what order
// they are read: a layer range has the tensors of its layers, the first stage the embedding, the
// last one the final norm and the head.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/spec.h"

namespace hearth::node {

template <typename Matrix, typename Vector>
struct LayerTensors {
  Vector attention_norm{};  // (hidden)
  Matrix query{};           // (heads * head_dim, hidden)
  Matrix key{};             // (kv_heads * head_dim, hidden)
  Matrix value{};           // (kv_heads * head_dim, hidden)
  Vector query_bias{};      // empty where the family has none, as the next two
  Vector key_bias{};
  Vector value_bias{};
  Vector query_norm{};              // (head_dim); empty where the family has none
  Vector key_norm{};                // (head_dim); likewise
  Matrix attention_output{};        // (hidden, heads * head_dim)
  Vector post_attention_norm{};     // (hidden); empty where the family has none
  Vector feed_forward_norm{};       // (hidden)
  Matrix gate{};                    // (feed_forward, hidden)
  Matrix up{};                      // (feed_forward, hidden)
  Matrix down{};                    // (hidden, feed_forward)
  Vector post_feed_forward_norm{};  // (hidden); empty where the family has none
};

template <typename Matrix, typename Vector>
struct StageTensors {
  std::vector<LayerTensors<Matrix, Vector>> layers;
  Matrix embedding{};    // (vocabulary, hidden); first stage
  Vector output_norm{};  // (hidden); last stage
  Matrix head{};         // (vocabulary, hidden); last stage, unless the embedding is it
  bool head_is_embedding = false;

  const Matrix& output() const { return head_is_embedding ? embedding : head; }
};

// `reader`: matrix(name, rows, cols, out) and vector(name, size, out), each giving a Status.
template <typename Reader, typename Matrix, typename Vector>
Status read_layer(const Reader& reader, const model::ModelSpec& spec, std::uint32_t index,
                  LayerTensors<Matrix, Vector>& out) {
  const std::uint32_t hidden = spec.hidden;
  const std::uint32_t wide = spec.heads * spec.head_dim;
  const std::uint32_t narrow = spec.kv_heads * spec.head_dim;
  const auto name = [&](std::string_view part) { return model::layer_tensor(index, part); };
  TRY_VOID(reader.vector(name("attn_norm.weight"), hidden, out.attention_norm));
  TRY_VOID(reader.matrix(name("attn_q.weight"), wide, hidden, out.query));
  TRY_VOID(reader.matrix(name("attn_k.weight"), narrow, hidden, out.key));
  TRY_VOID(reader.matrix(name("attn_v.weight"), narrow, hidden, out.value));
  if (spec.family->qkv_bias) {
    TRY_VOID(reader.vector(name("attn_q.bias"), wide, out.query_bias));
    TRY_VOID(reader.vector(name("attn_k.bias"), narrow, out.key_bias));
    TRY_VOID(reader.vector(name("attn_v.bias"), narrow, out.value_bias));
  }
  if (spec.family->qk_norm) {
    TRY_VOID(reader.vector(name("attn_q_norm.weight"), spec.head_dim, out.query_norm));
    TRY_VOID(reader.vector(name("attn_k_norm.weight"), spec.head_dim, out.key_norm));
  }
  TRY_VOID(reader.matrix(name("attn_output.weight"), hidden, wide, out.attention_output));
  if (spec.family->post_norms) {
    TRY_VOID(reader.vector(name("post_attention_norm.weight"), hidden, out.post_attention_norm));
    TRY_VOID(reader.vector(name("post_ffw_norm.weight"), hidden, out.post_feed_forward_norm));
  }
  TRY_VOID(reader.vector(name("ffn_norm.weight"), hidden, out.feed_forward_norm));
  TRY_VOID(reader.matrix(name("ffn_gate.weight"), spec.feed_forward, hidden, out.gate));
  TRY_VOID(reader.matrix(name("ffn_up.weight"), spec.feed_forward, hidden, out.up));
  return reader.matrix(name("ffn_down.weight"), hidden, spec.feed_forward, out.down);
}

template <typename Reader, typename Matrix, typename Vector>
Status read_stage(const Reader& reader, const model::ModelSpec& spec, LayerRange layers,
                  StageTensors<Matrix, Vector>& out) {
  const std::string embedding = "token_embd.weight";
  const bool first = layers.begin == 0;
  if (first) TRY_VOID(reader.matrix(embedding, spec.vocabulary, spec.hidden, out.embedding));
  out.layers.resize(layers.size());
  for (std::uint32_t i = layers.begin; i < layers.end; ++i) {
    TRY_VOID(read_layer(reader, spec, i, out.layers[i - layers.begin]));
  }
  if (layers.end < spec.layers) return ok_status();
  TRY_VOID(reader.vector("output_norm.weight", spec.hidden, out.output_norm));
  out.head_is_embedding = first && spec.tied_embeddings;
  if (out.head_is_embedding) return ok_status();
  return reader.matrix(spec.tied_embeddings ? embedding : "output.weight", spec.vocabulary,
                       spec.hidden, out.head);
}

}  // namespace hearth::node

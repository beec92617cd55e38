// The tensors of one stage by their roles in the model, on any device, and the order in which they
// are read. A layer range has the tensors of its layers, the first stage also the embedding, the
// last stage the final norm and the head.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/spec.h"
#include "node/engine/ranks/share.h"

namespace hearth::node {

template <typename Matrix, typename Vector>
struct LayerTensors {
  Vector attention_norm{};  // (hidden); empty where the family has none
  Matrix query{};           // (heads * head_dim, hidden); with a gate, of each head twice the rows
  Matrix key{};             // (kv_heads * head_dim, hidden)
  Matrix value{};           // (kv_heads * head_dim, hidden); empty where values are the keys
  Vector query_bias{};      // empty where the family has none, as the next two
  Vector key_bias{};
  Vector value_bias{};
  Vector attention_output_bias{};  // (hidden); likewise
  Vector sinks{};                  // (heads); likewise
  Vector query_norm{};             // (head_dim), or of all heads; empty where the family has none
  Vector key_norm{};               // likewise
  // Of latent attention, empty elsewhere; `query` is then (heads * head_dim, query_rank or hidden).
  Matrix query_down{};       // (query_rank, hidden); empty where the queries have one matrix
  Vector query_down_norm{};  // (query_rank); likewise
  Matrix latent{};           // (width + turned, hidden)
  Vector latent_norm{};      // (width)
  Matrix latent_keys{};      // (width, plain) of each head, one after the other
  Matrix latent_values{};    // (value, width) of each head, one after the other
  // Of a gated delta net, empty elsewhere; attention_output is then (hidden, inner).
  Matrix delta_input{};  // (channels, hidden), or (channels + inner, hidden) of joint_input
  Matrix delta_gate{};   // (inner, hidden); empty where the matrix before has its rows
  Matrix delta_beta{};   // (value_heads, hidden), or of joint_numbers (2 * value_heads, hidden)
  Matrix delta_alpha{};  // (value_heads, hidden); empty where the matrix before has its rows
  Vector delta_taps{};   // (channels, taps)
  Vector delta_bias{};   // (value_heads): of alpha
  Vector delta_decay{};  // (value_heads)
  Vector delta_norm{};   // (head)
  Matrix attention_output{};     // (hidden, heads * head_dim, or heads * value)
  Vector post_attention_norm{};  // (hidden); empty where the family has none
  Vector feed_forward_norm{};    // (hidden); empty where the family has none
  // For the feed-forward; in a layer with experts, the rows of all experts one after the other.
  Matrix gate{};            // (feed_forward, hidden); or of each expert its gate and then its up
  Matrix up{};              // (feed_forward, hidden); empty where `gate` has it
  Matrix down{};            // (hidden, feed_forward)
  Matrix router{};          // (experts, hidden); empty where the layer has no experts
  Vector selection_bias{};  // (experts); empty where the model has none
  Vector router_bias{};     // (experts); empty where the family has none, as the next three
  Vector gate_bias{};       // (experts, feed_forward)
  Vector up_bias{};         // (experts, feed_forward)
  Vector down_bias{};       // (experts, hidden)
  Matrix shared_router{};   // (1, hidden); of the shared expert; empty where it has none
  Matrix shared_gate{};     // (shared_feed_forward, hidden); empty without one
  Matrix shared_up{};       // (shared_feed_forward, hidden)
  Matrix shared_down{};     // (hidden, shared_feed_forward)
  // For a feed-forward beside the experts, which is then the shared expert; empty elsewhere.
  Vector router_scale{};            // (hidden)
  Vector expert_scales{};           // (experts)
  Vector experts_norm{};            // (hidden), before the experts
  Vector post_shared_norm{};        // (hidden), behind the feed-forward
  Vector post_experts_norm{};       // (hidden), behind the experts
  Vector post_feed_forward_norm{};  // (hidden); empty where the family has none
  Vector output_scale{};            // (1); empty where the layer has none
  // Of the layer's own input of the token, as wide as it; empty in a model without.
  Matrix input_gate{};        // (layer_input, hidden)
  Matrix input_projection{};  // (hidden, layer_input)
  Vector post_input_norm{};   // (hidden)
};

template <typename Matrix, typename Vector>
struct StageTensors {
  std::vector<LayerTensors<Matrix, Vector>> layers;
  Matrix embedding{};    // (vocabulary, hidden); first stage
  Vector output_norm{};  // (hidden); last stage
  Matrix head{};         // (vocabulary, hidden); last stage, unless the embedding is it
  // Of the layers' own inputs, those of all layers one after the other; first stage.
  Matrix input_table{};       // (vocabulary, layers * layer_input)
  Matrix input_projection{};  // (layers * layer_input, hidden)
  Vector input_norm{};        // (layer_input)
  bool head_is_embedding = false;

  const Matrix& output() const { return head_is_embedding ? embedding : head; }
};

// `reader`: matrix(name, rows, cols, out), with a number of experts behind it where the tensor has
// as many matrices of that shape, heads(name, rows, cols, count, out) for one of each head,
// part(name, all, first, rows, cols, out) for some rows of a matrix of `all` rows, with experts
// likewise, vector(name, size, out), with experts likewise, and table(name, rows, cols, out) for
// numbers of F32, each giving a Status. `share`: the rows of a rank; null: all.
template <typename Reader, typename Matrix>
Status read_rows(const Reader& reader, const std::string& name, std::uint32_t all,
                 const IndexRange& rows, std::uint32_t cols, Matrix& out,
                 std::uint32_t experts = 1) {
  if (rows.size() == all) return reader.matrix(name, all, cols, out, experts);
  if (rows.size() == 0) return ok_status();
  return reader.part(name, all, rows.begin, rows.size(), cols, out, experts);
}

// `reader`: as above.
template <typename Reader, typename Matrix, typename Vector>
Status read_beside(const Reader& reader, const model::ModelSpec& spec, std::uint32_t index,
                   LayerTensors<Matrix, Vector>& out) {
  const std::uint32_t hidden = spec.hidden;
  const std::uint32_t width = spec.shared_feed_forward;
  const auto name = [&](std::string_view part) { return model::layer_tensor(index, part); };
  TRY_VOID(reader.matrix(name("ffn_gate.weight"), width, hidden, out.shared_gate));
  TRY_VOID(reader.matrix(name("ffn_up.weight"), width, hidden, out.shared_up));
  TRY_VOID(reader.matrix(name("ffn_down.weight"), hidden, width, out.shared_down));
  TRY_VOID(reader.vector(name("ffn_gate_inp.scale"), hidden, out.router_scale));
  TRY_VOID(reader.vector(name("ffn_down_exps.scale"), spec.experts, out.expert_scales));
  TRY_VOID(reader.vector(name("pre_ffw_norm_2.weight"), hidden, out.experts_norm));
  TRY_VOID(reader.vector(name("post_ffw_norm_1.weight"), hidden, out.post_shared_norm));
  return reader.vector(name("post_ffw_norm_2.weight"), hidden, out.post_experts_norm);
}

// `reader`: as above.
template <typename Reader, typename Matrix, typename Vector>
Status read_feed_forward(const Reader& reader, const model::ModelSpec& spec, std::uint32_t index,
                         const Share* share, LayerTensors<Matrix, Vector>& out) {
  const std::uint32_t hidden = spec.hidden;
  const std::uint32_t width = spec.feed_forward_of(index);
  const IndexRange columns = share != nullptr ? share->columns : IndexRange{0, width};
  const IndexRange values = share != nullptr ? share->hidden : IndexRange{0, hidden};
  const auto name = [&](std::string_view part) { return model::layer_tensor(index, part); };
  if (!spec.has_experts(index)) {
    const std::string up = name("ffn_up.weight");
    if (spec.family->fused_gate_up) {
      TRY_VOID(reader.part(up, 2 * width, 0, width, hidden, out.gate));
      TRY_VOID(reader.part(up, 2 * width, width, width, hidden, out.up));
    } else {
      TRY_VOID(read_rows(reader, name("ffn_gate.weight"), width, columns, hidden, out.gate));
      TRY_VOID(read_rows(reader, up, width, columns, hidden, out.up));
    }
    return read_rows(reader, name("ffn_down.weight"), hidden, values, width, out.down);
  }
  const std::uint32_t experts = spec.experts;
  TRY_VOID(reader.matrix(name("ffn_gate_inp.weight"), experts, hidden, out.router));
  if (spec.selection_bias) {
    TRY_VOID(reader.vector(name(model::kSelectionBias), experts, out.selection_bias));
  }
  if (spec.fused_experts) {
    TRY_VOID(reader.matrix(name("ffn_gate_up_exps.weight"), 2 * width, hidden, out.gate, experts));
  } else {
    const auto read = [&](std::string_view tensor, Matrix& matrix) {
      return read_rows(reader, name(tensor), width, columns, hidden, matrix, experts);
    };
    TRY_VOID(read("ffn_gate_exps.weight", out.gate));
    TRY_VOID(read("ffn_up_exps.weight", out.up));
  }
  TRY_VOID(
      read_rows(reader, name("ffn_down_exps.weight"), hidden, values, width, out.down, experts));
  if (spec.family->expert_biases) {
    TRY_VOID(reader.vector(name("ffn_gate_inp.bias"), experts, out.router_bias));
    TRY_VOID(reader.vector(name("ffn_gate_exps.bias"), width, out.gate_bias, experts));
    TRY_VOID(reader.vector(name("ffn_up_exps.bias"), width, out.up_bias, experts));
    TRY_VOID(reader.vector(name("ffn_down_exps.bias"), hidden, out.down_bias, experts));
  }
  const std::uint32_t shared = spec.shared_feed_forward;
  if (shared == 0) return ok_status();
  if (spec.family->shared_expert == model::SharedExpert::kBeside) {
    return read_beside(reader, spec, index, out);
  }
  if (spec.family->shared_expert == model::SharedExpert::kGated) {
    TRY_VOID(reader.matrix(name("ffn_gate_inp_shexp.weight"), 1, hidden, out.shared_router));
  }
  TRY_VOID(reader.matrix(name("ffn_gate_shexp.weight"), shared, hidden, out.shared_gate));
  TRY_VOID(reader.matrix(name("ffn_up_shexp.weight"), shared, hidden, out.shared_up));
  return reader.matrix(name("ffn_down_shexp.weight"), hidden, shared, out.shared_down);
}

// `reader`: as above.
template <typename Reader, typename Matrix, typename Vector>
Status read_latent(const Reader& reader, const model::ModelSpec& spec, std::uint32_t index,
                   LayerTensors<Matrix, Vector>& out) {
  const std::uint32_t hidden = spec.hidden;
  const std::uint32_t heads = spec.heads;
  const std::uint32_t wide = heads * spec.head_dim;
  const model::Latent& latent = *spec.latent;
  const std::uint32_t rank = latent.query_rank;
  const auto name = [&](std::string_view part) { return model::layer_tensor(index, part); };
  if (rank == 0) {
    TRY_VOID(reader.matrix(name("attn_q.weight"), wide, hidden, out.query));
  } else {
    TRY_VOID(reader.matrix(name("attn_q_a.weight"), rank, hidden, out.query_down));
    TRY_VOID(reader.vector(name("attn_q_a_norm.weight"), rank, out.query_down_norm));
    TRY_VOID(reader.matrix(name("attn_q_b.weight"), wide, rank, out.query));
  }
  TRY_VOID(reader.matrix(name("attn_kv_a_mqa.weight"), latent.width + latent.turned, hidden,
                         out.latent));
  TRY_VOID(reader.vector(name("attn_kv_a_norm.weight"), latent.width, out.latent_norm));
  TRY_VOID(
      reader.heads(name("attn_k_b.weight"), latent.width, latent.plain, heads, out.latent_keys));
  TRY_VOID(
      reader.heads(name("attn_v_b.weight"), latent.value, latent.width, heads, out.latent_values));
  return reader.matrix(name("attn_output.weight"), hidden, heads * latent.value,
                       out.attention_output);
}

// `reader`: as above.
template <typename Reader, typename Matrix, typename Vector>
Status read_delta_net(const Reader& reader, const model::ModelSpec& spec, std::uint32_t index,
                      LayerTensors<Matrix, Vector>& out) {
  const std::uint32_t hidden = spec.hidden;
  const kernels::DeltaShape& shape = spec.delta->shape;
  const std::uint32_t heads = shape.value_heads;
  const auto name = [&](std::string_view part) { return model::layer_tensor(index, part); };
  if (spec.delta->joint_input) {
    TRY_VOID(reader.matrix(name("ssm_in.weight"), shape.channels() + shape.inner(), hidden,
                           out.delta_input));
  } else {
    TRY_VOID(reader.matrix(name("attn_qkv.weight"), shape.channels(), hidden, out.delta_input));
    TRY_VOID(reader.matrix(name("attn_gate.weight"), shape.inner(), hidden, out.delta_gate));
  }
  if (spec.family->joint_numbers) {
    TRY_VOID(reader.matrix(name("ssm_ba.weight"), 2 * heads, hidden, out.delta_beta));
  } else {
    TRY_VOID(reader.matrix(name("ssm_beta.weight"), heads, hidden, out.delta_beta));
    TRY_VOID(reader.matrix(name("ssm_alpha.weight"), heads, hidden, out.delta_alpha));
  }
  TRY_VOID(reader.table(name("ssm_conv1d.weight"), shape.channels(), shape.taps, out.delta_taps));
  TRY_VOID(reader.vector(name("ssm_dt.bias"), heads, out.delta_bias));
  TRY_VOID(reader.vector(name("ssm_a"), heads, out.delta_decay));
  TRY_VOID(reader.vector(name("ssm_norm.weight"), shape.head, out.delta_norm));
  return reader.matrix(name("ssm_out.weight"), hidden, shape.inner(), out.attention_output);
}

// `reader`: as above. Queries, keys and values with their biases, which are those of all heads.
template <typename Reader, typename Matrix, typename Vector>
Status read_heads(const Reader& reader, const model::ModelSpec& spec, std::uint32_t index,
                  const Share* share, LayerTensors<Matrix, Vector>& out) {
  const std::uint32_t hidden = spec.hidden;
  const std::uint32_t kv_heads = spec.kv_heads_of(index);
  const std::uint32_t wide = spec.heads * spec.head_dim_of(index);
  const std::uint32_t narrow = kv_heads * spec.head_dim_of(index);
  const bool keeps = spec.keeps_kv(index);
  const auto name = [&](std::string_view part) { return model::layer_tensor(index, part); };
  const model::FamilyTraits& family = *spec.family;
  if (family.fused_qkv) {
    const std::string fused = name("attn_qkv.weight");
    const std::uint32_t all = wide + 2 * narrow;
    TRY_VOID(reader.part(fused, all, 0, wide, hidden, out.query));
    TRY_VOID(reader.part(fused, all, wide, narrow, hidden, out.key));
    TRY_VOID(reader.part(fused, all, wide + narrow, narrow, hidden, out.value));
  } else {
    const std::uint32_t rows = family.attention_gate ? 2 * wide : wide;
    const IndexRange heads = share != nullptr ? share->kv_heads : IndexRange{0, kv_heads};
    const auto read = [&](std::string_view tensor, std::uint32_t all, Matrix& matrix) {
      const std::uint32_t each = all / kv_heads;
      return read_rows(reader, name(tensor), all, {heads.begin * each, heads.end * each}, hidden,
                       matrix);
    };
    TRY_VOID(read("attn_q.weight", rows, out.query));
    if (keeps) TRY_VOID(read("attn_k.weight", narrow, out.key));
    if (keeps && !spec.shares_keys_in(index)) TRY_VOID(read("attn_v.weight", narrow, out.value));
  }
  if (spec.qkv_bias) {
    TRY_VOID(reader.vector(name("attn_q.bias"), wide, out.query_bias));
    TRY_VOID(reader.vector(name("attn_k.bias"), narrow, out.key_bias));
    TRY_VOID(reader.vector(name("attn_v.bias"), narrow, out.value_bias));
  }
  return ok_status();
}

// `reader`: as above.
template <typename Reader, typename Matrix, typename Vector>
Status read_layer(const Reader& reader, const model::ModelSpec& spec, std::uint32_t index,
                  const Share* share, LayerTensors<Matrix, Vector>& out) {
  const std::uint32_t hidden = spec.hidden;
  const std::uint32_t head_dim = spec.head_dim_of(index);
  const std::uint32_t wide = spec.heads * head_dim;
  const std::uint32_t narrow = spec.kv_heads_of(index) * head_dim;
  const bool keeps = spec.keeps_kv(index);
  const auto name = [&](std::string_view part) { return model::layer_tensor(index, part); };
  const model::FamilyTraits& family = *spec.family;
  if (family.pre_norms) {
    TRY_VOID(reader.vector(name("attn_norm.weight"), hidden, out.attention_norm));
    TRY_VOID(reader.vector(name(family.feed_forward_norm), hidden, out.feed_forward_norm));
  }
  if (spec.latent) {
    TRY_VOID(read_latent(reader, spec, index, out));
    return read_feed_forward(reader, spec, index, share, out);
  }
  if (spec.is_delta(index)) {
    TRY_VOID(read_delta_net(reader, spec, index, out));
    return read_feed_forward(reader, spec, index, share, out);
  }
  TRY_VOID(read_heads(reader, spec, index, share, out));
  if (spec.head_norms != model::HeadNorms::kNone && spec.head_norms != model::HeadNorms::kPlain) {
    const bool each = spec.head_norms == model::HeadNorms::kEach;
    const auto size = [&](std::uint32_t all) { return each ? head_dim : all; };
    TRY_VOID(reader.vector(name("attn_q_norm.weight"), size(wide), out.query_norm));
    if (keeps) TRY_VOID(reader.vector(name("attn_k_norm.weight"), size(narrow), out.key_norm));
  }
  const bool divided = share != nullptr && !share->whole_attention_output;
  const IndexRange values = divided ? share->hidden : IndexRange{0, hidden};
  TRY_VOID(
      read_rows(reader, name("attn_output.weight"), hidden, values, wide, out.attention_output));
  if (family.output_bias) {
    TRY_VOID(reader.vector(name("attn_output.bias"), hidden, out.attention_output_bias));
  }
  if (family.sinks) {
    TRY_VOID(reader.vector(name("attn_sinks.weight"), spec.heads, out.sinks));
  }
  if (family.post_norms) {
    TRY_VOID(reader.vector(name("post_attention_norm.weight"), hidden, out.post_attention_norm));
    TRY_VOID(reader.vector(name("post_ffw_norm.weight"), hidden, out.post_feed_forward_norm));
  }
  if (spec.layer_input != 0) {
    const std::uint32_t width = spec.layer_input;
    TRY_VOID(reader.matrix(name("inp_gate.weight"), width, hidden, out.input_gate));
    TRY_VOID(reader.matrix(name("proj.weight"), hidden, width, out.input_projection));
    TRY_VOID(reader.vector(name("post_norm.weight"), hidden, out.post_input_norm));
  }
  if (spec.has_scale_in(index)) {
    TRY_VOID(reader.vector(name("layer_output_scale.weight"), 1, out.output_scale));
  }
  return read_feed_forward(reader, spec, index, share, out);
}

template <typename Reader, typename Matrix, typename Vector>
Status read_stage(const Reader& reader, const model::ModelSpec& spec, LayerRange layers,
                  const Share* share, StageTensors<Matrix, Vector>& out) {
  const std::string embedding = "token_embd.weight";
  const bool first = layers.begin == 0;
  const auto read_tokens = [&](const std::string& name, Matrix& matrix) {
    const IndexRange tokens = share != nullptr ? share->vocabulary : IndexRange{0, spec.vocabulary};
    return read_rows(reader, name, spec.vocabulary, tokens, spec.hidden, matrix);
  };
  if (first) TRY_VOID(read_tokens(embedding, out.embedding));
  if (first && spec.layer_input != 0) {
    const std::uint32_t all = spec.layers * spec.layer_input;
    TRY_VOID(reader.matrix("per_layer_token_embd.weight", spec.vocabulary, all, out.input_table));
    TRY_VOID(reader.matrix("per_layer_model_proj.weight", all, spec.hidden, out.input_projection));
    TRY_VOID(reader.vector("per_layer_proj_norm.weight", spec.layer_input, out.input_norm));
  }
  out.layers.resize(layers.size());
  for (std::uint32_t i = layers.begin; i < layers.end; ++i) {
    TRY_VOID(read_layer(reader, spec, i, share, out.layers[i - layers.begin]));
  }
  if (layers.end < spec.layers) return ok_status();
  TRY_VOID(reader.vector("output_norm.weight", spec.hidden, out.output_norm));
  out.head_is_embedding = first && spec.tied_embeddings;
  if (out.head_is_embedding) return ok_status();
  return read_tokens(spec.tied_embeddings ? embedding : "output.weight", out.head);
}

}  // namespace hearth::node

// Which tensors a model has, by the names and shapes of the GGUF convention.
#include "model/spec.h"

namespace hearth::model {
namespace {

class LayerList {
 public:
  explicit LayerList(std::uint32_t layer) : layer_(layer) {}
  void matrix(std::string_view part, std::uint64_t in, std::uint64_t out) {
    tensors_.push_back({layer_tensor(layer_, part), {in, out}, true});
  }
  // One matrix an expert, one after the other.
  void experts(std::string_view part, std::uint64_t in, std::uint64_t out, std::uint64_t count) {
    tensors_.push_back({layer_tensor(layer_, part), {in, out, count}, true});
  }
  // One matrix a head, likewise.
  void heads(std::string_view part, std::uint64_t in, std::uint64_t out, std::uint64_t count) {
    tensors_.push_back({layer_tensor(layer_, part), {in, out, count}, true});
  }
  void router(std::string_view part, std::uint64_t in, std::uint64_t out) {
    tensors_.push_back({layer_tensor(layer_, part), {in, out}, true, true});
  }
  void vector(std::string_view part, std::uint64_t size) {
    tensors_.push_back({layer_tensor(layer_, part), {size}, false});
  }
  // As many vectors, one after the other: one an expert, or one a channel.
  void vectors(std::string_view part, std::uint64_t size, std::uint64_t count) {
    tensors_.push_back({layer_tensor(layer_, part), {size, count}, false});
  }
  std::vector<ExpectedTensor> take() { return std::move(tensors_); }

 private:
  std::uint32_t layer_;
  std::vector<ExpectedTensor> tensors_;
};

void add_feed_forward(const ModelSpec& spec, std::uint32_t layer, LayerList& list) {
  if (!spec.has_experts(layer)) {
    const bool fused = spec.family->fused_gate_up;
    const std::uint32_t width = spec.feed_forward_of(layer);
    if (!fused) list.matrix("ffn_gate.weight", spec.hidden, width);
    list.matrix("ffn_up.weight", spec.hidden, (fused ? 2ULL : 1ULL) * width);
    list.matrix("ffn_down.weight", width, spec.hidden);
    return;
  }
  list.router("ffn_gate_inp.weight", spec.hidden, spec.experts);
  if (spec.selection_bias) list.vector(kSelectionBias, spec.experts);
  list.experts("ffn_gate_exps.weight", spec.hidden, spec.feed_forward, spec.experts);
  list.experts("ffn_up_exps.weight", spec.hidden, spec.feed_forward, spec.experts);
  list.experts("ffn_down_exps.weight", spec.feed_forward, spec.hidden, spec.experts);
  if (spec.family->expert_biases) {
    list.vector("ffn_gate_inp.bias", spec.experts);
    list.vectors("ffn_gate_exps.bias", spec.feed_forward, spec.experts);
    list.vectors("ffn_up_exps.bias", spec.feed_forward, spec.experts);
    list.vectors("ffn_down_exps.bias", spec.hidden, spec.experts);
  }
  if (spec.shared_feed_forward == 0) return;
  if (spec.family->shared_expert == SharedExpert::kGated) {
    list.router("ffn_gate_inp_shexp.weight", spec.hidden, 1);
  }
  list.matrix("ffn_gate_shexp.weight", spec.hidden, spec.shared_feed_forward);
  list.matrix("ffn_up_shexp.weight", spec.hidden, spec.shared_feed_forward);
  list.matrix("ffn_down_shexp.weight", spec.shared_feed_forward, spec.hidden);
}

void add_latent(const ModelSpec& spec, LayerList& list) {
  const std::uint64_t query = std::uint64_t{spec.heads} * spec.head_dim;
  const Latent& latent = *spec.latent;
  if (latent.query_rank == 0) {
    list.matrix("attn_q.weight", spec.hidden, query);
  } else {
    list.matrix("attn_q_a.weight", spec.hidden, latent.query_rank);
    list.vector("attn_q_a_norm.weight", latent.query_rank);
    list.matrix("attn_q_b.weight", latent.query_rank, query);
  }
  list.matrix("attn_kv_a_mqa.weight", spec.hidden, std::uint64_t{latent.width} + latent.turned);
  list.vector("attn_kv_a_norm.weight", latent.width);
  list.heads("attn_k_b.weight", latent.plain, latent.width, spec.heads);
  list.heads("attn_v_b.weight", latent.width, latent.value, spec.heads);
  list.matrix("attn_output.weight", std::uint64_t{spec.heads} * latent.value, spec.hidden);
}

void add_delta_net(const ModelSpec& spec, LayerList& list) {
  const kernels::DeltaShape& shape = spec.delta->shape;
  const std::uint64_t inner = shape.inner();
  if (spec.delta->joint_input) {
    list.matrix("ssm_in.weight", spec.hidden, shape.channels() + inner);
  } else {
    list.matrix("attn_qkv.weight", spec.hidden, shape.channels());
    list.matrix("attn_gate.weight", spec.hidden, inner);
  }
  if (spec.family->joint_numbers) {
    list.matrix("ssm_ba.weight", spec.hidden, 2ULL * shape.value_heads);
  } else {
    list.matrix("ssm_beta.weight", spec.hidden, shape.value_heads);
    list.matrix("ssm_alpha.weight", spec.hidden, shape.value_heads);
  }
  list.vectors("ssm_conv1d.weight", shape.taps, shape.channels());
  list.vector("ssm_dt.bias", shape.value_heads);
  list.vector("ssm_a", shape.value_heads);
  list.vector("ssm_norm.weight", shape.head);
  list.matrix("ssm_out.weight", inner, spec.hidden);
}

// Queries, keys and values of each head, what each of them needs, and what brings them together.
void add_attention(const ModelSpec& spec, LayerList& list) {
  const FamilyTraits& family = *spec.family;
  const std::uint64_t query = std::uint64_t{spec.heads} * spec.head_dim;
  const std::uint64_t kv = std::uint64_t{spec.kv_heads} * spec.head_dim;
  if (family.fused_qkv) {
    list.matrix("attn_qkv.weight", spec.hidden, query + 2 * kv);
  } else {
    list.matrix("attn_q.weight", spec.hidden, (family.attention_gate ? 2 : 1) * query);
    list.matrix("attn_k.weight", spec.hidden, kv);
    list.matrix("attn_v.weight", spec.hidden, kv);
  }
  list.matrix("attn_output.weight", query, spec.hidden);
  if (spec.qkv_bias) {
    list.vector("attn_q.bias", query);
    list.vector("attn_k.bias", kv);
    list.vector("attn_v.bias", kv);
  }
  if (family.output_bias) list.vector("attn_output.bias", spec.hidden);
  if (family.sinks) list.vector("attn_sinks.weight", spec.heads);
  if (spec.head_norms != HeadNorms::kNone) {
    const bool each = spec.head_norms == HeadNorms::kEach;
    list.vector("attn_q_norm.weight", each ? spec.head_dim : query);
    list.vector("attn_k_norm.weight", each ? spec.head_dim : kv);
  }
}

}  // namespace

std::string layer_tensor(std::uint32_t layer, std::string_view part) {
  return "blk." + std::to_string(layer) + "." + std::string(part);
}

std::vector<ExpectedTensor> layer_tensors(const ModelSpec& spec, std::uint32_t layer) {
  const FamilyTraits& family = *spec.family;
  LayerList list(layer);
  if (family.pre_norms) list.vector("attn_norm.weight", spec.hidden);
  if (spec.latent) {
    add_latent(spec, list);
  } else if (spec.is_delta(layer)) {
    add_delta_net(spec, list);
  } else {
    add_attention(spec, list);
  }
  if (family.post_norms) list.vector("post_attention_norm.weight", spec.hidden);
  if (family.pre_norms) list.vector(family.feed_forward_norm, spec.hidden);
  add_feed_forward(spec, layer, list);
  if (family.post_norms) list.vector("post_ffw_norm.weight", spec.hidden);
  return list.take();
}

std::vector<ExpectedTensor> outer_tensors(const ModelSpec& spec) {
  std::vector<ExpectedTensor> list;
  list.push_back({"token_embd.weight", {spec.hidden, spec.vocabulary}, true});
  list.push_back({"output_norm.weight", {spec.hidden}, false});
  if (!spec.tied_embeddings) {
    list.push_back({"output.weight", {spec.hidden, spec.vocabulary}, true});
  }
  const std::uint64_t pairs = spec.rotary_dim / 2;
  if (spec.long_factors) {
    list.push_back({"rope_factors_long.weight", {pairs}, false});
    list.push_back({"rope_factors_short.weight", {pairs}, false});
  } else if (!spec.rope_factors.empty()) {
    list.push_back({"rope_freqs.weight", {pairs}, false});
  }
  return list;
}

}  // namespace hearth::model

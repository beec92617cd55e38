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

// A feed-forward beside the experts, and what the two have of their own.
void add_beside(const ModelSpec& spec, LayerList& list) {
  list.matrix("ffn_gate.weight", spec.hidden, spec.shared_feed_forward);
  list.matrix("ffn_up.weight", spec.hidden, spec.shared_feed_forward);
  list.matrix("ffn_down.weight", spec.shared_feed_forward, spec.hidden);
  list.vector("ffn_gate_inp.scale", spec.hidden);
  list.vector("ffn_down_exps.scale", spec.experts);
  list.vector("pre_ffw_norm_2.weight", spec.hidden);
  list.vector("post_ffw_norm_1.weight", spec.hidden);
  list.vector("post_ffw_norm_2.weight", spec.hidden);
}

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
  if (spec.fused_experts) {
    list.experts("ffn_gate_up_exps.weight", spec.hidden, 2ULL * spec.feed_forward, spec.experts);
  } else {
    list.experts("ffn_gate_exps.weight", spec.hidden, spec.feed_forward, spec.experts);
    list.experts("ffn_up_exps.weight", spec.hidden, spec.feed_forward, spec.experts);
  }
  list.experts("ffn_down_exps.weight", spec.feed_forward, spec.hidden, spec.experts);
  if (spec.family->shared_expert == SharedExpert::kBeside) add_beside(spec, list);
  if (spec.family->expert_biases) {
    list.vector("ffn_gate_inp.bias", spec.experts);
    list.vectors("ffn_gate_exps.bias", spec.feed_forward, spec.experts);
    list.vectors("ffn_up_exps.bias", spec.feed_forward, spec.experts);
    list.vectors("ffn_down_exps.bias", spec.hidden, spec.experts);
  }
  const SharedExpert shared = spec.family->shared_expert;
  if (spec.shared_feed_forward == 0 || shared == SharedExpert::kBeside) return;
  if (shared == SharedExpert::kGated) {
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
void add_attention(const ModelSpec& spec, std::uint32_t layer, LayerList& list) {
  const FamilyTraits& family = *spec.family;
  const std::uint64_t head_dim = spec.head_dim_of(layer);
  const std::uint64_t query = spec.heads * head_dim;
  const std::uint64_t kv = spec.kv_heads_of(layer) * head_dim;
  const bool keeps = !spec.shares_kv(layer);
  if (family.fused_qkv) {
    list.matrix("attn_qkv.weight", spec.hidden, query + 2 * kv);
  } else {
    list.matrix("attn_q.weight", spec.hidden, (family.attention_gate ? 2 : 1) * query);
    if (keeps) list.matrix("attn_k.weight", spec.hidden, kv);
    if (keeps && !spec.shares_keys_in(layer)) list.matrix("attn_v.weight", spec.hidden, kv);
  }
  list.matrix("attn_output.weight", query, spec.hidden);
  if (spec.qkv_bias) {
    list.vector("attn_q.bias", query);
    list.vector("attn_k.bias", kv);
    list.vector("attn_v.bias", kv);
  }
  if (family.output_bias) list.vector("attn_output.bias", spec.hidden);
  if (family.sinks) list.vector("attn_sinks.weight", spec.heads);
  if (spec.head_norms != HeadNorms::kNone && spec.head_norms != HeadNorms::kPlain) {
    const bool each = spec.head_norms == HeadNorms::kEach;
    list.vector("attn_q_norm.weight", each ? head_dim : query);
    if (keeps) list.vector("attn_k_norm.weight", each ? head_dim : kv);
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
    add_attention(spec, layer, list);
  }
  if (family.post_norms) list.vector("post_attention_norm.weight", spec.hidden);
  if (family.pre_norms) list.vector(family.feed_forward_norm, spec.hidden);
  add_feed_forward(spec, layer, list);
  if (family.post_norms) list.vector("post_ffw_norm.weight", spec.hidden);
  if (spec.layer_input != 0) {
    list.matrix("inp_gate.weight", spec.hidden, spec.layer_input);
    list.matrix("proj.weight", spec.layer_input, spec.hidden);
    list.vector("post_norm.weight", spec.hidden);
  }
  if (spec.has_scale_in(layer)) list.vector("layer_output_scale.weight", 1);
  return list.take();
}

std::vector<ExpectedTensor> outer_tensors(const ModelSpec& spec) {
  std::vector<ExpectedTensor> list;
  list.push_back({"token_embd.weight", {spec.hidden, spec.vocabulary}, true});
  list.push_back({"output_norm.weight", {spec.hidden}, false});
  if (!spec.tied_embeddings) {
    list.push_back({"output.weight", {spec.hidden, spec.vocabulary}, true});
  }
  if (spec.layer_input != 0) {
    const std::uint64_t all = std::uint64_t{spec.layer_input} * spec.layers;
    list.push_back({"per_layer_token_embd.weight", {all, spec.vocabulary}, true});
    list.push_back({"per_layer_model_proj.weight", {spec.hidden, all}, true});
    list.push_back({"per_layer_proj_norm.weight", {spec.layer_input}, false});
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

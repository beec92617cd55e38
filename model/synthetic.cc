#include "model/synthetic.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <utility>

#include "base/limits.h"
#include "model/chat_template.h"
#include "model/gguf/manifest.h"
#include "model/gguf/quantize.h"
#include "model/gguf/writer.h"
#include "model/random_weights.h"
#include "model/synthetic_vocabulary.h"

namespace hearth::model {
namespace {

// SplitMix64: the stream of a row depends on seed, tensor and row alone.
class RowRandom {
 public:
  RowRandom(std::uint64_t seed, std::uint64_t tensor, std::uint64_t row)
      : state_(seed ^ (tensor * 0xD1B54A32D192ED03ULL) ^ (row * 0x8CB92BA72F3D8DD7ULL)) {
    next();
  }
  // About normal with variance 1: the sum of four uniform 16-bit numbers, exact in a float.
  float normal() {
    const std::uint64_t bits = next();
    const auto sum = static_cast<std::int32_t>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) +
                                               ((bits >> 32) & 0xFFFF) + (bits >> 48));
    constexpr float kUnit = 2.6429e-5F;  // 1 / sqrt(4 * 65536^2 / 12)
    return static_cast<float>(sum - 131070) * kUnit;
  }
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

// How the values of a tensor are drawn: mean + deviation * normal.
struct Draw {
  float mean = 0.0F;
  float deviation = 0.0F;
};

float root_of_inverse(std::uint64_t n) { return std::sqrt(1.0F / static_cast<float>(n)); }

bool is_down(const std::string& name) {
  return name.find(".ffn_down") != std::string::npos;  // of experts and of a shared expert as well
}

// Scales that keep a forward pass in the range of a trained model: rows of unit gain, branches
// that together add about as much as the embedding, attention that is neither flat nor a spike,
// logits that spread over a few units.
Draw draw_of(const ExpectedTensor& tensor, const SyntheticOptions& options) {
  const std::string& name = tensor.name;
  if (name.ends_with("attn_sinks.weight")) return {0.0F, 1.0F};
  if (name.ends_with(kSelectionBias)) return {0.0F, 0.05F};
  if (name.ends_with("ssm_conv1d.weight")) return {0.0F, root_of_inverse(tensor.dims[0])};
  if (name.ends_with("ssm_a")) return {-4.0F, 1.0F};  // with the next one: heads that keep
  if (name.ends_with("ssm_dt.bias"))
    return {-4.0F, 1.5F};  // what they read for 1 to 1000 positions
  // What a router reads is divided by this root.
  if (name.ends_with("ffn_gate_inp.scale")) return {1.0F / root_of_inverse(options.hidden), 0.1F};
  if (!tensor.is_matrix) {
    const bool factor =
        name.find("norm") != std::string::npos || name.find("scale") != std::string::npos;
    return factor ? Draw{1.0F, 0.1F} : Draw{0.0F, 0.1F};
  }
  const float gain = root_of_inverse(tensor.dims[0]);
  if (tensor.is_router) return {0.0F, 2.0F * gain};  // some experts clearly ahead of others
  // What a token gives to a layer's own input is multiplied by the root of its width.
  if (name == "per_layer_token_embd.weight") return {0.0F, root_of_inverse(options.layer_input)};
  if (name == "token_embd.weight" || name == "output.weight") {
    // With post norms, every branch adds values of about 1, the size of scaled embeddings.
    return {0.0F, find_family(options.family)->scale_embeddings ? gain : 3.0F * gain};
  }
  if (name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight") ||
      name.ends_with("attn_qkv.weight") || name.ends_with("attn_q_b.weight")) {
    return {0.0F, 1.5F * gain};
  }
  if (name.ends_with("attn_output.weight") || name.ends_with("ssm_out.weight") || is_down(name)) {
    return {0.0F, gain * root_of_inverse(2ULL * options.layers)};
  }
  return {0.0F, gain};
}

bool is_finer(const ExpectedTensor& tensor, const SyntheticOptions& options) {
  if (!options.finer_type) return false;
  if (!tensor.name.ends_with("attn_v.weight") && !is_down(tensor.name)) return false;
  const auto layer = static_cast<std::uint32_t>(std::stoul(tensor.name.substr(4)));  // "blk.N."
  const std::uint32_t eighth = options.layers / 8;
  return layer < eighth || layer >= 7 * options.layers / 8 || (layer - eighth) % 3 == 2;
}

TensorType wanted_type(const ExpectedTensor& tensor, const SyntheticOptions& options) {
  if (is_finer(tensor, options)) return *options.finer_type;
  if (tensor.name == "token_embd.weight") return options.embedding_type;
  if (tensor.name == "output.weight") return options.output_type;
  return tensor.name.find(".attn_") == std::string::npos ? options.feed_forward_type
                                                         : options.attention_type;
}

// Rows that are not a whole number of blocks fall back to Q8_0.
TensorType type_of(const ExpectedTensor& tensor, const SyntheticOptions& options) {
  if (!tensor.is_matrix || tensor.is_router) return TensorType::kF32;
  const TensorType wanted = wanted_type(tensor, options);
  const TensorTypeInfo* info = tensor_type_info(static_cast<std::uint32_t>(wanted));
  return tensor.dims[0] % info->block_elements == 0 ? wanted : TensorType::kQ8_0;
}

// 1 for the first quarter of the pairs; the others do not turn.
Status fill_no_turns(std::uint32_t pairs, MutableByteSpan out) {
  std::vector<float> factors(pairs, 1e30F);
  std::fill_n(factors.begin(), pairs / 4, 1.0F);
  return quantize_row(TensorType::kF32, factors, out);
}

// 1 for the fast half of the pairs, then rising to `most`.
Status fill_rope_factors(std::uint32_t pairs, float most, MutableByteSpan out) {
  std::vector<float> factors(pairs, 1.0F);
  const std::uint32_t half = pairs / 2;
  for (std::uint32_t i = half; i < pairs; ++i) {
    const auto place = static_cast<float>(i - half + 1);
    factors[i] = 1.0F + (most - 1.0F) * place / static_cast<float>(pairs - half);
  }
  return quantize_row(TensorType::kF32, factors, out);
}

void add_tensor(GgufWriter& writer, const ExpectedTensor& tensor, std::uint64_t index,
                const SyntheticOptions& options) {
  const TensorType type = type_of(tensor, options);
  const auto width = static_cast<std::uint32_t>(tensor.dims[0]);
  if (tensor.name.starts_with("rope_f")) {  // rope_freqs, rope_factors_long and _short
    const float most = tensor.name == "rope_factors_short.weight" ? 2.0F : 8.0F;
    const bool in_part = find_family(options.family)->own_local_heads;
    writer.add_tensor(tensor.name, type, tensor.dims, [=](std::uint64_t, MutableByteSpan out) {
      return in_part ? fill_no_turns(width, out) : fill_rope_factors(width, most, out);
    });
    return;
  }
  const Draw draw = draw_of(tensor, options);
  const std::uint64_t seed = options.seed;
  if (has_random_blocks(type)) {
    writer.add_tensor(tensor.name, type, tensor.dims, [=](std::uint64_t row, MutableByteSpan out) {
      RowRandom random(seed, index, row);
      fill_random_blocks(
          type, draw.deviation, [&random] { return random.next(); }, out);
      return ok_status();
    });
    return;
  }
  auto values = std::make_shared<std::vector<float>>(width);
  writer.add_tensor(tensor.name, type, tensor.dims, [=](std::uint64_t row, MutableByteSpan out) {
    RowRandom random(seed, index, row);
    for (float& value : *values) value = draw.mean + draw.deviation * random.normal();
    return quantize_row(type, *values, out);
  });
}

bool is_beside(const ModelSpec& spec) {
  return spec.family->shared_expert == SharedExpert::kBeside && spec.experts != 0;
}

void add_expert_keys(GgufWriter& writer, const ModelSpec& spec, const std::string& prefix) {
  if (spec.experts == 0) return;
  writer.add(prefix + "expert_count", spec.experts);
  writer.add(prefix + "expert_used_count", spec.experts_used);
  if (!spec.family->full_width_experts) {
    writer.add(prefix + "expert_feed_forward_length", spec.feed_forward);
  }
  if (spec.family->shared_expert == SharedExpert::kCounted) {
    writer.add(prefix + "expert_shared_count", spec.shared_feed_forward / spec.feed_forward);
  } else if (spec.shared_feed_forward != 0 && !is_beside(spec) &&
             spec.family->shared_expert != SharedExpert::kOne) {
    writer.add(prefix + "expert_shared_feed_forward_length", spec.shared_feed_forward);
  }
  if (spec.family->interleaved_experts) {
    writer.add(prefix + "interleave_moe_layer_step", spec.expert_every);
  }
  if (!spec.family->own_routing) return;
  constexpr std::uint32_t kSigmoid = 2;
  writer.add(prefix + "expert_gating_func", kSigmoid);
  writer.add(prefix + "expert_weights_norm", spec.routing.to_one);
  writer.add(prefix + "expert_weights_scale", spec.routing.scale);
  writer.add(prefix + "leading_dense_block_count", spec.dense_layers);
  writer.add(prefix + "expert_group_count", spec.routing.groups);
  writer.add(prefix + "expert_group_used_count", spec.routing.groups_used);
}

// The keys of a longer context, of an eighth before.
void add_stretch_keys(GgufWriter& writer, const ModelSpec& spec, const std::string& prefix) {
  if (spec.family->unturned_temperature) {
    writer.add(prefix + "attention.temperature_scale", 0.1F);
    writer.add(prefix + "attention.temperature_length", std::max(1U, spec.context / 8));
  }
  if (!spec.long_factors && !spec.family->temperature) return;
  writer.add(prefix + "rope.scaling.original_context_length", std::max(1U, spec.context / 8));
  if (spec.long_factors) {
    writer.add(prefix + "rope.scaling.attn_factor", 1.19F);
    return;
  }
  writer.add(prefix + "rope.scaling.type", "yarn");
  writer.add(prefix + "rope.scaling.factor", 8.0F);
  writer.add(prefix + "rope.scaling.yarn_beta_fast", 32.0F);
  writer.add(prefix + "rope.scaling.yarn_beta_slow", 1.0F);
  writer.add(prefix + "rope.scaling.yarn_log_multiplier", 1.0F);
  writer.add(prefix + "attention.temperature_scale", 0.1F);
}

void add_scale_keys(GgufWriter& writer, const ModelSpec& spec, const std::string& prefix) {
  if (spec.family->scales) {
    writer.add(prefix + "embedding_scale", 4.0F);
    writer.add(prefix + "residual_scale", 0.5F);
    writer.add(prefix + "attention.scale", 1.0F / static_cast<float>(spec.head_dim));
    writer.add(prefix + "logit_scale", 2.0F);
  }
  if (spec.family->caps) {
    writer.add(prefix + "attn_logit_softcapping", 50.0F);
    writer.add(prefix + "final_logit_softcapping", 30.0F);
  }
}

void add_local_keys(GgufWriter& writer, const ModelSpec& spec, const std::string& prefix) {
  std::vector<bool> local;
  std::vector<std::uint32_t> kv_heads;
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    local.push_back(spec.is_local(layer));
    kv_heads.push_back(spec.kv_heads_of(layer));
  }
  if (spec.is_whole()) {
    std::vector<std::uint32_t> widths;
    for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
      widths.push_back(spec.feed_forward_of(layer));
    }
    writer.add_array(prefix + "feed_forward_length", widths);
    writer.add(prefix + "attention.shared_kv_layers", spec.sharing_layers);
    writer.add(prefix + "embedding_length_per_layer_input", spec.layer_input);
  }
  writer.add_array(prefix + "attention.sliding_window_pattern", local);
  writer.add_array(prefix + "attention.head_count_kv", kv_heads);
  for (const std::string_view key :
       {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    writer.add(prefix + std::string(key), spec.head_dim);
    writer.add(prefix + std::string(key) + "_swa", spec.local_head_dim);
  }
  writer.add(prefix + "rope.freq_base_swa", 10'000.0F);
  writer.add(prefix + "final_logit_softcapping", 30.0F);
}

void add_latent_keys(GgufWriter& writer, const ModelSpec& spec, const std::string& prefix) {
  const Latent& latent = *spec.latent;
  if (latent.query_rank != 0) writer.add(prefix + "attention.q_lora_rank", latent.query_rank);
  writer.add(prefix + "attention.kv_lora_rank", latent.width);
  writer.add(prefix + "attention.key_length", latent.width + latent.turned);
  writer.add(prefix + "attention.value_length", latent.width);
  writer.add(prefix + "attention.key_length_mla", spec.head_dim);
  writer.add(prefix + "attention.value_length_mla", latent.value);
}

void add_delta_keys(GgufWriter& writer, const ModelSpec& spec, const std::string& prefix) {
  const kernels::DeltaShape& shape = spec.delta->shape;
  writer.add(prefix + "full_attention_interval", spec.delta->every);
  writer.add(prefix + "ssm.conv_kernel", shape.taps);
  writer.add(prefix + "ssm.state_size", shape.head);
  writer.add(prefix + "ssm.group_count", shape.key_heads);
  writer.add(prefix + "ssm.time_step_rank", shape.value_heads);
  writer.add(prefix + "ssm.inner_size", shape.inner());
  std::vector<bool> states;
  for (std::uint32_t layer = 0; layer < spec.layers + spec.prediction_layers; ++layer) {
    states.push_back(layer < spec.layers && spec.is_delta(layer));
  }
  writer.add_array(prefix + "attention.recurrent_layers", states);
  if (!spec.family->position_sections) return;
  const auto third = static_cast<std::int32_t>(spec.rotary_dim / 2 / 3);
  const auto rest = static_cast<std::int32_t>(spec.rotary_dim / 2 % 3);
  const std::vector<std::int32_t> sections{third + (rest > 0 ? 1 : 0), third + (rest > 1 ? 1 : 0),
                                           third, 0};
  writer.add_array(prefix + "rope.dimension_sections", sections);
}

void add_model_keys(GgufWriter& writer, const ModelSpec& spec, const SyntheticOptions& options) {
  const std::string prefix = options.family + ".";
  writer.add("general.architecture", options.family);
  writer.add("general.type", "model");
  writer.add("general.name", options.name);
  writer.add("general.quantization_version", std::uint32_t{2});
  if (options.shape_only) writer.add(kShapeOnlyKey, true);
  writer.add(prefix + "block_count", spec.layers + spec.prediction_layers);
  if (spec.prediction_layers != 0) {
    writer.add(prefix + "nextn_predict_layers", spec.prediction_layers);
  }
  writer.add(prefix + "context_length", spec.context);
  writer.add(prefix + "embedding_length", spec.hidden);
  if (!spec.is_whole()) {
    writer.add(prefix + "feed_forward_length",
               is_beside(spec) ? spec.shared_feed_forward : spec.feed_forward_of(0));
  }
  add_expert_keys(writer, spec, prefix);
  writer.add(prefix + "attention.head_count", spec.heads);
  if (!spec.family->own_local_heads) writer.add(prefix + "attention.head_count_kv", spec.kv_heads);
  if (spec.family->own_local_heads) {
    add_local_keys(writer, spec, prefix);
  } else if (spec.latent) {
    add_latent_keys(writer, spec, prefix);
  } else if (options.head_dim != 0) {
    writer.add(prefix + "attention.key_length", spec.head_dim);
    writer.add(prefix + "attention.value_length", spec.head_dim);
  }
  if (spec.delta) add_delta_keys(writer, spec, prefix);
  writer.add(prefix + "attention.layer_norm_rms_epsilon", 1e-5F);
  if (spec.family->global_every != 0) {
    writer.add(prefix + "attention.sliding_window", options.sliding_window);
  }
  add_scale_keys(writer, spec, prefix);
  add_stretch_keys(writer, spec, prefix);
  const auto own_base = static_cast<float>(spec.family->rope_base);
  writer.add(prefix + "rope.freq_base", options.rope_base > 0.0F ? options.rope_base : own_base);
  if (options.yarn_scale > 0.0F) {
    writer.add(prefix + "rope.scaling.type", "yarn");
    writer.add(prefix + "rope.scaling.factor", options.yarn_scale);
    writer.add(prefix + "rope.scaling.original_context_length",
               static_cast<std::uint32_t>(static_cast<float>(spec.context) / options.yarn_scale));
  }
  if (options.yarn_scale > 0.0F && spec.latent) {
    writer.add(prefix + "rope.scaling.yarn_log_multiplier", 0.1F);
  }
  if (!spec.family->own_local_heads) writer.add(prefix + "rope.dimension_count", spec.rotary_dim);
  writer.add(prefix + "vocab_size", spec.vocabulary);
  if (!options.embeddings) return;
  constexpr std::uint32_t kLast = 3;
  writer.add(prefix + "pooling_type", kLast);
  writer.add("tokenizer.ggml.add_eos_token", true);
}

bool has_spm(const FamilyTraits& family) { return family.tokenizer == "spm"; }

void add_bpe_keys(GgufWriter& writer, const SyntheticVocabulary& vocabulary, std::string_view pre) {
  writer.add("tokenizer.ggml.model", "gpt2");
  writer.add("tokenizer.ggml.pre", std::string(pre));
  writer.add_array("tokenizer.ggml.merges", vocabulary.merges);
  writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  writer.add("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
  writer.add("tokenizer.ggml.padding_token_id", std::uint32_t{2});
  writer.add("tokenizer.ggml.add_bos_token", false);
  writer.add("tokenizer.chat_template", std::string(chat_template_of(ChatMarks::kChatMl)));
}

void add_spm_keys(GgufWriter& writer, const SyntheticVocabulary& vocabulary) {
  writer.add("tokenizer.ggml.model", "llama");
  writer.add("tokenizer.ggml.pre", "default");
  writer.add_array("tokenizer.ggml.scores", vocabulary.scores);
  writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{2});
  writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{1});
  writer.add("tokenizer.ggml.unknown_token_id", std::uint32_t{3});
  writer.add("tokenizer.ggml.padding_token_id", std::uint32_t{0});
  writer.add("tokenizer.ggml.add_bos_token", true);
  writer.add("tokenizer.chat_template", std::string(chat_template_of(ChatMarks::kTurns)));
}

void add_tokenizer_keys(GgufWriter& writer, const ModelSpec& spec) {
  const bool spm = has_spm(*spec.family);
  const SyntheticVocabulary vocabulary =
      spm ? synthetic_spm(spec.vocabulary) : synthetic_bpe(spec.vocabulary);
  writer.add_array("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.add_array("tokenizer.ggml.token_type", vocabulary.types);
  writer.add("tokenizer.ggml.add_space_prefix", false);
  if (spm) {
    add_spm_keys(writer, vocabulary);
  } else {
    add_bpe_keys(writer, vocabulary, spec.family->tokenizer);
  }
}

Status require_multiple(std::string_view option, std::uint32_t value, std::uint32_t high) {
  REQUIRE(value > 0 && value <= high && value % kernels::kBlock == 0, "option ", option, " is ",
          value, "; it must be a multiple of ", kernels::kBlock, " up to ", high);
  return ok_status();
}

// Routing for a family whose files state it: sigmoids with a bias, and a first layer without
// experts.
Status set_routing(const SyntheticOptions& options, ModelSpec& spec) {
  const std::uint32_t groups = options.expert_groups;
  REQUIRE(groups > 0 && spec.experts % groups == 0 && (groups == 1 || spec.experts / groups >= 2),
          "option expert_groups must divide the experts into groups of at least 2");
  const std::uint32_t used = options.expert_groups_used;
  REQUIRE(used > 0 && used <= groups && used * (spec.experts / groups) >= spec.experts_used,
          "option expert_groups_used must be some of the groups, with all experts of a row");
  constexpr float kScale = 2.5F;
  spec.routing = {true, true, kScale, groups, used};
  spec.selection_bias = true;
  if (spec.layers == 1) return ok_status();
  spec.dense_layers = 1;
  spec.dense_feed_forward = options.dense_feed_forward;
  return require_multiple("dense_feed_forward", spec.dense_feed_forward, limits::kModelFeedForward);
}

// At least one layer has experts.
Status set_interleave(const SyntheticOptions& options, ModelSpec& spec) {
  REQUIRE(options.expert_every > 0, "option expert_every must be above 0 in family ",
          options.family);
  spec.expert_every = std::min(options.expert_every, spec.layers);
  if (spec.expert_every == 1) return ok_status();
  spec.dense_feed_forward = options.dense_feed_forward;
  return require_multiple("dense_feed_forward", spec.dense_feed_forward, limits::kModelFeedForward);
}

Status set_experts(const SyntheticOptions& options, ModelSpec& spec) {
  constexpr std::uint32_t kUsual = 8;
  const Experts kind = spec.family->experts;
  spec.experts = kind == Experts::kAlways && options.experts == 0 ? kUsual : options.experts;
  if (spec.experts == 0) return ok_status();
  REQUIRE(kind != Experts::kNone, "option experts must be 0 in family ", options.family);
  REQUIRE(spec.experts >= 2 && spec.experts <= limits::kModelExperts,
          "option experts must be from 2 to ", limits::kModelExperts);
  REQUIRE(options.experts_used > 0 &&
              options.experts_used <= std::min(spec.experts, limits::kModelExpertsUsed),
          "option experts_used must be from 1 to the experts, at most ", limits::kModelExpertsUsed);
  spec.experts_used = options.experts_used;
  if (spec.family->own_routing) TRY_VOID(set_routing(options, spec));
  if (spec.family->interleaved_experts) TRY_VOID(set_interleave(options, spec));
  const SharedExpert shared = spec.family->shared_expert;
  const bool as_wide = shared == SharedExpert::kCounted || shared == SharedExpert::kOne;
  if (as_wide) spec.shared_feed_forward = spec.feed_forward;
  if (shared == SharedExpert::kNone || as_wide) return ok_status();
  spec.shared_feed_forward = options.shared_feed_forward;
  return require_multiple("shared_feed_forward", spec.shared_feed_forward,
                          limits::kModelFeedForward);
}

// Heads of the latent's widths in place of the options' own.
Status set_latent(const SyntheticOptions& options, ModelSpec& spec) {
  const Latent& latent = options.latent;
  for (const auto& [option, width] :
       {std::pair("latent.width", latent.width),
        {"latent.turned", latent.turned},
        {"latent.plain", latent.plain},
        {"latent.value", latent.value},
        {"latent.query_rank", std::max(latent.query_rank, kernels::kBlock)}}) {
    TRY_VOID(require_multiple(option, width, limits::kModelHeadDim * 4));
  }
  REQUIRE(latent.width + latent.turned <= limits::kModelLatent &&
              latent.plain + latent.turned <= limits::kModelHeadDim &&
              latent.value <= limits::kModelHeadDim,
          "the widths of option latent must be within the limits of a model");
  spec.latent = latent;
  spec.kv_heads = 1;
  spec.head_dim = latent.plain + latent.turned;
  spec.rotary_dim = latent.turned;
  return ok_status();
}

Status set_delta_net(const SyntheticOptions& options, ModelSpec& spec) {
  const kernels::DeltaShape& shape = options.delta;
  TRY_VOID(require_multiple("delta.head", shape.head, limits::kModelHeadDim));
  REQUIRE(shape.key_heads > 0 && shape.value_heads > 0 &&
              shape.value_heads <= limits::kModelHeads && shape.value_heads % shape.key_heads == 0,
          "option delta.value_heads must be a multiple of delta.key_heads, and neither 0");
  REQUIRE(
      shape.taps > 0 && shape.taps <= limits::kModelTaps && shape.channels() <= limits::kModelWidth,
      "the widths of option delta must be within the limits of a model");
  REQUIRE(options.attention_every > 0 && options.attention_every <= limits::kModelLayers,
          "option attention_every must be from 1 to ", limits::kModelLayers);
  const bool joint = options.joint_delta_input && spec.family->joint_numbers;
  spec.delta = DeltaNet{shape, options.attention_every, joint};
  return ok_status();
}

Status set_layer_inputs(const SyntheticOptions& options, ModelSpec& spec) {
  REQUIRE(options.sharing_layers + std::min(spec.global_every, spec.layers) <= spec.layers,
          "option sharing_layers must leave a layer of each kind before them");
  spec.sharing_layers = options.sharing_layers;
  spec.layer_input = options.layer_input;
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (!spec.keeps_kv(layer)) spec.shares_keys[layer] = false;
  }
  if (spec.sharing_layers != 0) {
    spec.dense_layers = spec.layers - spec.sharing_layers;
    spec.dense_feed_forward = spec.feed_forward;
    spec.feed_forward *= 2;
  }
  if (spec.layer_input == 0) return ok_status();
  return require_multiple("layer_input", spec.layer_input, limits::kModelHeadDim);
}

// The options' heads are those of the local layers. The others' are twice as wide and, where that
// may be, half as many, and have their keys as values.
Status set_local_heads(const SyntheticOptions& options, ModelSpec& spec) {
  REQUIRE(options.sliding_window > 0, "option sliding_window must be above 0 in family ",
          options.family);
  spec.local_head_dim = spec.head_dim;
  spec.local_kv_heads = spec.kv_heads;
  spec.head_dim = options.global_head_dim != 0 ? options.global_head_dim : 2 * spec.head_dim;
  if (spec.kv_heads % 2 == 0) spec.kv_heads /= 2;
  if (options.global_kv_heads != 0) spec.kv_heads = options.global_kv_heads;
  REQUIRE(spec.heads % spec.kv_heads == 0, "option heads must be a multiple of global_kv_heads");
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    spec.shares_keys.push_back(!spec.is_local(layer));
    spec.has_scale.push_back(true);
  }
  spec.fused_experts = true;
  if (options.experts == 0) TRY_VOID(set_layer_inputs(options, spec));
  return require_multiple("local heads", spec.local_head_dim, limits::kModelHeadDim);
}

Result<ModelSpec> spec_of(const SyntheticOptions& options) {
  ModelSpec spec;
  spec.family = find_family(options.family);
  if (spec.family == nullptr) {
    return Error::of(ErrorCode::kUnsupported, "family '", options.family, "' is not served");
  }
  REQUIRE(options.layers > 0 && options.layers <= limits::kModelLayers,
          "option layers must be from 1 to ", limits::kModelLayers);
  REQUIRE(options.heads > 0 && options.kv_heads > 0 && options.heads % options.kv_heads == 0,
          "option heads must be a multiple of kv_heads, and neither 0");
  const std::uint32_t least = has_spm(*spec.family) ? kSyntheticSpmMin : kSyntheticBpeMin;
  REQUIRE(options.vocabulary >= least && options.vocabulary <= limits::kVocabulary,
          "option vocabulary must be from ", least, " to ", limits::kVocabulary);
  spec.layers = options.layers;
  spec.hidden = options.hidden;
  spec.feed_forward = options.feed_forward;
  spec.heads = options.heads;
  spec.kv_heads = options.kv_heads;
  spec.head_dim = options.head_dim != 0 ? options.head_dim : options.hidden / options.heads;
  spec.vocabulary = options.vocabulary;
  spec.context = options.context;
  spec.tied_embeddings = options.tied_output;
  TRY_VOID(require_multiple("hidden", spec.hidden, limits::kModelWidth));
  TRY_VOID(require_multiple("feed_forward", spec.feed_forward, limits::kModelFeedForward));
  REQUIRE((options.layer_input == 0 && options.sharing_layers == 0) ||
              (spec.family->layer_inputs && options.experts == 0),
          "options layer_input and sharing_layers must be 0 with experts or in family ",
          options.family);
  spec.global_every = spec.family->global_every;
  if (spec.global_every != 0) spec.sliding_window = options.sliding_window;
  if (spec.family->latent) TRY_VOID(set_latent(options, spec));
  if (spec.family->own_local_heads) TRY_VOID(set_local_heads(options, spec));
  TRY_VOID(require_multiple("head_dim", spec.head_dim, limits::kModelHeadDim));
  TRY_VOID(set_experts(options, spec));
  if (spec.family->delta_net) TRY_VOID(set_delta_net(options, spec));
  const bool parts = spec.family->part_rotary && spec.head_dim > kernels::kBlock;
  // Half of the head, in whole blocks.
  const std::uint32_t half = (spec.head_dim / kernels::kBlock + 1) / 2 * kernels::kBlock;
  if (!spec.latent) spec.rotary_dim = parts ? half : spec.head_dim;
  spec.qkv_bias = spec.family->qkv_bias || spec.family->qkv_bias_may;
  spec.head_norms = spec.family->head_norms;
  if (spec.head_norms == HeadNorms::kMay) spec.head_norms = HeadNorms::kEach;
  if (spec.head_norms == HeadNorms::kPlain && spec.experts == kExpertsWithoutNorms) {
    spec.head_norms = HeadNorms::kNone;
  }
  REQUIRE(options.prediction_layers == 0 || spec.family->prediction_layers,
          "option prediction_layers must be 0 in family ", options.family);
  REQUIRE(options.prediction_layers <= limits::kModelLayers - spec.layers,
          "option prediction_layers must be within ", limits::kModelLayers, " layers in all");
  spec.prediction_layers = options.prediction_layers;
  spec.long_factors = options.rope_factors && spec.family->long_factors;
  if (options.rope_factors && spec.family->rope_factors)
    spec.rope_factors.resize(spec.rotary_dim / 2);
  return spec;
}

}  // namespace

Status set_weight_types(SyntheticOptions& options, std::string_view name) {
  std::string wanted(name);
  std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const bool mixed = wanted == "Q4_K_M" || wanted == "Q5_K_M";
  if (mixed) wanted.resize(4);
  if (wanted == "MXFP4_MOE") {
    options.attention_type = options.embedding_type = options.output_type = TensorType::kQ8_0;
    options.feed_forward_type = TensorType::kMXFP4;
    options.finer_type.reset();
    return ok_status();
  }
  std::string choices = "Q4_K_M, Q5_K_M, MXFP4_MOE";
  for (std::uint32_t number = 0; number < kTensorTypeNumbers; ++number) {
    const TensorTypeInfo* info = tensor_type_info(number);
    if (info == nullptr) continue;
    choices += ", " + std::string(info->name);
    if (info->name != wanted) continue;
    const auto type = static_cast<TensorType>(number);
    options.attention_type = options.feed_forward_type = options.embedding_type = type;
    options.output_type = mixed ? TensorType::kQ6_K : type;
    options.finer_type.reset();
    if (mixed) options.finer_type = TensorType::kQ6_K;
    return ok_status();
  }
  return Error::invalid("no weight type is called '", name, "'; there are: ", choices);
}

Result<GgufWriter> synthetic_writer(const SyntheticOptions& options) {
  TRY(const ModelSpec spec, spec_of(options));
  for (const TensorType type : {options.attention_type, options.feed_forward_type,
                                options.embedding_type, options.output_type}) {
    TRY_VOID(weight_type(type, "of the options"));
  }
  GgufWriter writer;
  add_model_keys(writer, spec, options);
  add_tokenizer_keys(writer, spec);
  std::uint64_t index = 0;
  for (const ExpectedTensor& tensor : outer_tensors(spec)) {
    add_tensor(writer, tensor, index++, options);
  }
  const std::uint32_t all = spec.layers + spec.prediction_layers;
  for (std::uint32_t layer = 0; layer < all; ++layer) {
    for (const ExpectedTensor& tensor : layer_tensors(spec, layer)) {
      add_tensor(writer, tensor, index++, options);
    }
  }
  for (std::uint32_t layer = spec.layers; layer < all; ++layer) {
    const ExpectedTensor mark{
        layer_tensor(layer, kPredictionMark), {2ULL * spec.hidden, spec.hidden}, true};
    add_tensor(writer, mark, index++, options);
  }
  return writer;
}

Status write_synthetic_model(const std::string& path, const SyntheticOptions& options) {
  TRY(const GgufWriter writer, synthetic_writer(options));
  return options.shape_only ? writer.write_hollow(path) : writer.write(path);
}

Result<Bytes> synthetic_model_bytes(const SyntheticOptions& options) {
  TRY(const GgufWriter writer, synthetic_writer(options));
  return writer.bytes();
}

}  // namespace hearth::model

// The families that the engine runs, one row each: what the table of CANONICAL.md section 12 says.
#include <algorithm>
#include <array>

#include "model/spec.h"

namespace hearth::model {
namespace {

constexpr std::array<FamilyTraits, 22> kFamilies{{
    // Llama 2, 3 and 3.1 to 3.3, Mistral, Mixtral, and models with the same structure.
    {.architecture = "llama",
     .rope = kernels::RopeStyle::kAdjacent,
     .experts = Experts::kMay,
     .full_width_experts = true,
     .rope_factors = true,
     .in_shares = true,
     .tokenizer = "smollm"},
    // Qwen 2 and 2.5.
    {.architecture = "qwen2", .qkv_bias = true, .in_shares = true, .tokenizer = "qwen2"},
    // Qwen 3, dense.
    {.architecture = "qwen3",
     .head_norms = HeadNorms::kEach,
     .in_shares = true,
     .tokenizer = "qwen2"},
    // Gemma 3, text. Its model of 62 layers (27B) was trained with the scores of narrower heads.
    {.architecture = "gemma3",
     .activation = Activation::kGeluTanh,
     .head_norms = HeadNorms::kEach,
     .post_norms = true,
     .scale_embeddings = true,
     .rope_base = 1e6,
     .in_shares = true,
     .global_every = 6,
     .narrow_score_layers = 62,
     .tokenizer = "spm"},
    // Qwen 1.5 and 2 with experts.
    {.architecture = "qwen2moe",
     .qkv_bias = true,
     .experts = Experts::kAlways,
     .expert_weights_to_one = false,
     .shared_expert = SharedExpert::kGated,
     .tokenizer = "qwen2"},
    // Qwen 3 with experts.
    {.architecture = "qwen3moe",
     .head_norms = HeadNorms::kEach,
     .experts = Experts::kAlways,
     .in_shares = true,
     .tokenizer = "qwen2"},
    // OLMo 2, and 3 with its local layers.
    {.architecture = "olmo2",
     .head_norms = HeadNorms::kTogether,
     .pre_norms = false,
     .post_norms = true,
     .global_every = 4,
     .local_rope = LocalRope::kPlain,
     .tokenizer = "dbrx"},
    // Granite 3 and 4, dense.
    {.architecture = "granite",
     .rope = kernels::RopeStyle::kAdjacent,
     .scales = true,
     .rope_factors = true,
     .tokenizer = "refact"},
    // Granite 3 with experts.
    {.architecture = "granitemoe",
     .rope = kernels::RopeStyle::kAdjacent,
     .scales = true,
     .experts = Experts::kAlways,
     .full_width_experts = true,
     .shared_expert = SharedExpert::kMay,
     .rope_factors = true,
     .tokenizer = "refact"},
    {.architecture = "smollm3",
     .rope = kernels::RopeStyle::kAdjacent,
     .unturned_every = 4,
     .tokenizer = "smaug-bpe"},
    // GLM 4 of April 2025 (0414), dense.
    {.architecture = "glm4",
     .rope = kernels::RopeStyle::kAdjacent,
     .qkv_bias_may = true,
     .fused_gate_up = true,
     .post_norms = true,
     .part_rotary = true,
     .tokenizer = "glm4"},
    // GLM 4.5 to 4.7, with experts.
    {.architecture = "glm4moe",
     .qkv_bias_may = true,
     .head_norms = HeadNorms::kMay,
     .feed_forward_norm = "post_attention_norm.weight",
     .experts = Experts::kAlways,
     .expert_weights_to_one = false,
     .shared_expert = SharedExpert::kCounted,
     .own_routing = true,
     .prediction_layers = true,
     .part_rotary = true,
     .tokenizer = "glm4"},
    // DeepSeek V2, V3 and R1, and models with the same structure: Kimi K2, GLM-4.7-Flash.
    {.architecture = "deepseek2",
     .rope = kernels::RopeStyle::kAdjacent,
     .latent = true,
     .experts = Experts::kAlways,
     .expert_weights_to_one = false,
     .shared_expert = SharedExpert::kCounted,
     .own_routing = true,
     .prediction_layers = true,
     .tokenizer = "deepseek-v3"},
    // Gemma 2. Its model of 46 layers (27B) was trained with the scores of wider heads.
    {.architecture = "gemma2",
     .activation = Activation::kGeluTanh,
     .post_norms = true,
     .scale_embeddings = true,
     .caps = true,
     .global_every = 2,
     .local_rope = LocalRope::kSame,
     .window = 4096,
     .narrow_score_layers = 46,
     .tokenizer = "spm"},
    // Gemma 4: 31B, 26B with experts beside a feed-forward, E2B and E4B with inputs of each layer.
    {.architecture = "gemma4",
     .activation = Activation::kGeluTanh,
     .head_norms = HeadNorms::kEach,
     .post_norms = true,
     .scale_embeddings = true,
     .logit_cap = true,
     .score_factor = 1.0F,
     .value_norms = true,
     .keys_as_values = true,
     .layer_scales = true,
     .own_local_heads = true,
     .layer_inputs = true,
     .experts = Experts::kMay,
     .shared_expert = SharedExpert::kBeside,
     .rope_base = 1e6,
     .rope_factors = true,
     .global_every = 6,
     .tokenizer = "spm"},
    // Phi 3, 3.5 and 4, dense. If the file names a window, all layers have it.
    {.architecture = "phi3",
     .fused_qkv = true,
     .fused_gate_up = true,
     .long_factors = true,
     .part_rotary = true,
     .global_every = kNoGlobal,
     .local_rope = LocalRope::kSame,
     .tokenizer = "spm"},
    // Ministral 3.
    {.architecture = "mistral3",
     .rope = kernels::RopeStyle::kAdjacent,
     .rope_factors = true,
     .temperature = true,
     .tokenizer = "tekken"},
    // OpenAI's gpt-oss.
    {.architecture = "gpt-oss",
     .activation = Activation::kClampedSilu,
     .qkv_bias = true,
     .output_bias = true,
     .sinks = true,
     .expert_biases = true,
     .feed_forward_norm = "post_attention_norm.weight",
     .experts = Experts::kAlways,
     .global_every = 2,
     .local_rope = LocalRope::kSame,
     .tokenizer = "gpt-4o"},
    // Llama 4: Scout and Maverick, text.
    {.architecture = "llama4",
     .rope = kernels::RopeStyle::kAdjacent,
     .head_norms = HeadNorms::kPlain,
     .experts = Experts::kAlways,
     .expert_weights_to_one = false,
     .interleaved_experts = true,
     .sigmoid_routing = true,
     .scaled_inputs = true,
     .shared_expert = SharedExpert::kOne,
     .rope_factors = true,
     .unturned_every = 4,
     .unturned_temperature = true,
     .global_every = 4,
     .chunks = true,
     .local_rope = LocalRope::kSame,
     .window = 8192,
     .tokenizer = "gpt-4o"},
    // Qwen 3 Next.
    {.architecture = "qwen3next",
     .head_norms = HeadNorms::kEach,
     .delta_net = true,
     .joint_numbers = true,
     .attention_gate = true,
     .feed_forward_norm = "post_attention_norm.weight",
     .experts = Experts::kAlways,
     .shared_expert = SharedExpert::kGated,
     .prediction_layers = true,
     .part_rotary = true,
     .tokenizer = "qwen2"},
    // Qwen 3.5 and 3.6, dense.
    {.architecture = "qwen35",
     .head_norms = HeadNorms::kEach,
     .delta_net = true,
     .tiled_heads = true,
     .attention_gate = true,
     .position_sections = true,
     .feed_forward_norm = "post_attention_norm.weight",
     .prediction_layers = true,
     .part_rotary = true,
     .tokenizer = "qwen35"},
    // The same with experts.
    {.architecture = "qwen35moe",
     .head_norms = HeadNorms::kEach,
     .delta_net = true,
     .tiled_heads = true,
     .attention_gate = true,
     .position_sections = true,
     .feed_forward_norm = "post_attention_norm.weight",
     .experts = Experts::kAlways,
     .shared_expert = SharedExpert::kGated,
     .prediction_layers = true,
     .part_rotary = true,
     .tokenizer = "qwen35"},
}};

}  // namespace

const FamilyTraits* find_family(std::string_view architecture) {
  const auto* found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const FamilyTraits& family) { return family.architecture == architecture; });
  return found == kFamilies.end() ? nullptr : found;
}

std::vector<std::string_view> known_families() {
  std::vector<std::string_view> names;
  for (const FamilyTraits& family : kFamilies) names.push_back(family.architecture);
  return names;
}

}  // namespace hearth::model

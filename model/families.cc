// The families that the engine runs, one row each: what the table of CANONICAL.md section 12 says.
#include <algorithm>
#include <array>

#include "model/spec.h"

namespace hearth::model {
namespace {

constexpr std::array<FamilyTraits, 7> kFamilies{{
    // Llama 2, 3 and 3.1 to 3.3, Mistral, Mixtral, and whatever else is built like them.
    {.architecture = "llama",
     .rope = kernels::RopeStyle::kAdjacent,
     .experts = Experts::kMay,
     .rope_factors = true,
     .tokenizer = "smollm"},
    // Qwen 2 and 2.5.
    {.architecture = "qwen2", .qkv_bias = true, .tokenizer = "qwen2"},
    // Qwen 3, dense.
    {.architecture = "qwen3", .qk_norm = true, .tokenizer = "qwen2"},
    // Gemma 3, text. Its model of 62 layers (27B) was trained with the scores of narrower heads.
    {.architecture = "gemma3",
     .activation = Activation::kGeluTanh,
     .qk_norm = true,
     .post_norms = true,
     .scale_embeddings = true,
     .rope_base = 1e6,
     .global_every = 6,
     .narrow_score_layers = 62,
     .tokenizer = "spm"},
    // Qwen 1.5 and 2 with experts.
    {.architecture = "qwen2moe",
     .qkv_bias = true,
     .experts = Experts::kAlways,
     .expert_weights_to_one = false,
     .shared_expert = true,
     .tokenizer = "qwen2"},
    // Qwen 3 with experts.
    {.architecture = "qwen3moe",
     .qk_norm = true,
     .experts = Experts::kAlways,
     .tokenizer = "qwen2"},
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

// Complete models with random weights, for tests and benchmarks. Every shape, key and tokenizer
// entry is valid; the output is meaningless. The same options give the same bytes everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "model/gguf/writer.h"
#include "model/spec.h"

namespace hearth::model {

struct SyntheticOptions {
  std::string family = "llama";
  std::string name = "synthetic tiny";
  std::uint64_t seed = 1;
  std::uint32_t layers = 4;
  std::uint32_t hidden = 128;
  std::uint32_t feed_forward = 224;        // of each expert where there are any
  std::uint32_t experts = 0;               // 0: none, or 8 in a family that always has them
  std::uint32_t experts_used = 2;          // of them by a row
  std::uint32_t shared_feed_forward = 96;  // in families whose files name its width
  // In families whose files say how experts are chosen: the width of the first layer, which has
  // none, and groups of experts.
  std::uint32_t dense_feed_forward = 352;
  std::uint32_t expert_every = 2;  // in families whose files say of how many layers the last has
                                   // experts; the others are then as wide
  std::uint32_t expert_groups = 1;
  std::uint32_t expert_groups_used = 1;
  Latent latent{64, 64, 32, 32, 32};  // in families with latent attention; of its own heads
  // In families with gated delta nets: their heads, and of how many layers one has attention.
  kernels::DeltaShape delta{2, 4, 32, 4};
  std::uint32_t attention_every = kUsualInterval;
  bool joint_delta_input = false;       // as older files of qwen3next have it
  std::uint32_t prediction_layers = 0;  // behind the layers, in families that may have them
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 0;  // 0: hidden / heads
  // In families whose local layers have heads of their own, which are then those above: the
  // others'; 0: half as many, and twice as wide.
  std::uint32_t global_kv_heads = 0;
  std::uint32_t global_head_dim = 0;
  // In families that may have them, where the model has no experts: values of each layer's own
  // input, and last layers without keys and values, whose feed-forward is twice as wide.
  std::uint32_t layer_input = 0;
  std::uint32_t sharing_layers = 0;
  std::uint32_t vocabulary = 400;  // 259 at least: specials and bytes, the rest are merges
  std::uint32_t context = 512;
  float rope_base = 0.0F;     // 0: the family's own
  float yarn_scale = 0.0F;    // above 0: YaRN from the context divided by it
  bool rope_factors = false;  // in families that have them: divisors of the frequencies, 1 to 8
  std::uint32_t sliding_window = 40;  // in families with local layers
  bool tied_output = true;            // no output.weight
  bool embeddings = false;            // a model of embeddings: the last position, after EOS
  // A file without weights (ModelSpec::shape_only), whose tensors are one hole.
  bool shape_only = false;
  // Rows that are not a whole number of a type's blocks are Q8_0 instead.
  TensorType attention_type = TensorType::kQ4_1;
  TensorType feed_forward_type = TensorType::kQ4_0;
  TensorType embedding_type = TensorType::kQ8_0;
  TensorType output_type = TensorType::kQ8_0;
  // attn_v and ffn_down of the layers that llama.cpp's _M mixtures give more bits: the first and
  // the last eighth and every third one between.
  std::optional<TensorType> finer_type;
};

// Sets every weight type of `options` to a tensor type's name ("Q5_0", any case), or to the mixture
// "Q4_K_M" or "Q5_K_M": finer layers and output Q6_K; or to "MXFP4_MOE": feed-forwards, experts
// included, MXFP4 and all others Q8_0. kInvalidInput names the choices.
Status set_weight_types(SyntheticOptions& options, std::string_view name);

// kInvalidInput or kUnsupported names the option. The tokenizer is of the family's kind: byte-level
// BPE with ChatML's template, or SentencePiece with Gemma's (synthetic_vocabulary.h).
Status write_synthetic_model(const std::string& path, const SyntheticOptions& options);
Result<Bytes> synthetic_model_bytes(const SyntheticOptions& options);
Result<GgufWriter> synthetic_writer(const SyntheticOptions& options);

}  // namespace hearth::model

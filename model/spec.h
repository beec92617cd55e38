// ModelSpec: what a model is, read from a GGUF file's keys and checked against its tensors.
//
// A family is one row of the table in families.cc; the engine asks traits, never names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"
#include "model/gguf.h"

namespace hearth::model {

enum class Activation : std::uint8_t { kSilu, kGeluTanh };

// What sets one family apart from another.
struct FamilyTraits {
  std::string_view architecture;  // general.architecture
  kernels::RopeStyle rope;
  Activation activation;
  bool qkv_bias;          // attn_{q,k,v}.bias
  bool qk_norm;           // attn_{q,k}_norm.weight, per head, before RoPE
  bool post_norms;        // norms after attention and after the feed-forward
  bool scale_embeddings;  // embeddings times sqrt(hidden)
  int residual_shift;     // prescale 2^-shift of the 16-bit residual (CANONICAL.md)
};
// Null when no family has this architecture. The error of ModelSpec::read lists the known ones.
const FamilyTraits* find_family(std::string_view architecture);
std::vector<std::string_view> known_families();

struct ModelSpec {
  const FamilyTraits* family = nullptr;
  std::string name;
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t feed_forward = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;  // heads * head_dim need not equal hidden
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;
  float rms_epsilon = 0.0F;
  double rope_base = 10000.0;
  double rope_scale = 1.0;          // linear scaling: positions divided by it
  std::vector<float> rope_factors;  // head_dim / 2 divisors (rope_freqs.weight), or empty
  bool tied_embeddings = false;     // no output.weight: the head is token_embd.weight
  std::uint64_t parameters = 0;     // elements of all tensors

  // Every key and every tensor of the whole model is checked, so that an engine of any layer range
  // finds what it needs. A tensor that the family does not use is refused too: ignoring it would
  // compute another model. kInvalidInput for what breaks a rule, kUnsupported for what is well
  // formed and of a kind that this build does not run; both name key or tensor and the limit.
  static Result<ModelSpec> read(const GgufFile& file);
  // Frequencies of the pairs of a head, factors and scale applied: (head_dim / 2). Pinned
  // arithmetic, no libm (CANONICAL.md, RoPE).
  std::vector<double> rope_frequencies() const;
  kernels::KvLayout kv_layout() const { return {kv_heads, head_dim}; }
};

// A tensor that the spec asks for.
struct ExpectedTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // as the file has them: dims[0] is the contiguous one
  bool is_matrix = false;           // a weight matrix (weight_type), else a vector of F32
};
std::vector<ExpectedTensor> layer_tensors(const ModelSpec& spec, std::uint32_t layer);
// Those outside the layers: embedding, last norm, the head when it is not tied, RoPE factors.
std::vector<ExpectedTensor> outer_tensors(const ModelSpec& spec);

// The tensor, when it is there with these dims; else an error that names expected and actual. Its
// type is not looked at.
Result<const TensorInfo*> require_tensor(const GgufFile& file, const std::string& name,
                                         std::vector<std::uint64_t> dims);
std::string layer_tensor(std::uint32_t layer, std::string_view part);  // "blk.3.attn_q.weight"

// The kernels' weight type of a file's tensor type; kUnsupported names the type and the choices.
Result<kernels::WeightType> weight_type(TensorType type, std::string_view tensor);

}  // namespace hearth::model

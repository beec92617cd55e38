// ModelSpec: the structure of a model, read from a GGUF file's keys and checked against its
// tensors.
//
// A family is one row of the table in families.cc; the engine asks traits, never names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

enum class Activation : std::uint8_t { kSilu, kGeluTanh, kClampedSilu };
// Whether layers have a mixture of experts in place of one feed-forward.
enum class Experts : std::uint8_t { kNone, kMay, kAlways };
// The shared expert, which every row uses: none; one that a gate of its own weighs; one of weight 1
// if the file states its width (kMay); one of weight 1, as wide as the number of experts that the
// file states (kCounted); or a feed-forward beside the others, which both have norms of their own
// (kBeside); or one of weight 1, as wide as an expert (kOne).
enum class SharedExpert : std::uint8_t { kNone, kGated, kMay, kCounted, kBeside, kOne };

// "blk.N." stands before it.
inline constexpr std::string_view kSelectionBias = "exp_probs_b.bias";
// Norms of queries and keys before RoPE: none; of each head; of each head if the file has them; of
// all heads as one row; or of each head without weights, in layers with RoPE (kPlain).
enum class HeadNorms : std::uint8_t { kNone, kEach, kMay, kTogether, kPlain };
// The model of a family with kPlain that has as many experts has no such norms.
inline constexpr std::uint32_t kExpertsWithoutNorms = 128;
// RoPE angles of local layers: from a base of their own; from the model's base without factors and
// scaling; or equal to those of the other layers.
enum class LocalRope : std::uint8_t { kOwnBase, kPlain, kSame };

// In families with delta nets: of so many layers one has attention, where the file does not say.
inline constexpr std::uint32_t kUsualInterval = 4;
// Key of GGUF files: ModelSpec::shape_only.
inline constexpr std::string_view kShapeOnlyKey = "hearth.shape_only";

// global_every of a family whose layers are all local.
inline constexpr std::uint32_t kNoGlobal = ~std::uint32_t{0};

// The traits that distinguish families.
struct FamilyTraits {
  std::string_view architecture;  // general.architecture
  kernels::RopeStyle rope = kernels::RopeStyle::kHalves;
  Activation activation = Activation::kSilu;
  bool qkv_bias = false;                    // attn_{q,k,v}.bias
  bool qkv_bias_may = false;                // the same, where the file has them
  bool fused_qkv = false;                   // attn_qkv.weight has the rows of all three
  bool fused_gate_up = false;               // ffn_up.weight has the rows of the gate before its own
  HeadNorms head_norms = HeadNorms::kNone;  // attn_{q,k}_norm.weight
  bool pre_norms = true;                    // norms before attention and before the feed-forward
  bool post_norms = false;                  // norms behind them
  bool scale_embeddings = false;            // embeddings times sqrt(hidden)
  bool scales = false;           // files name scales of embeddings, branches, scores and logits
  bool caps = false;             // of scores and logits
  bool logit_cap = false;        // of logits alone, unless the file says 0
  float score_factor = 0.0F;     // of scores, in place of 1 / sqrt(head_dim); 0: that
  bool value_norms = false;      // of the heads of values, without weights
  bool keys_as_values = false;   // layers without attn_v.weight use their keys as values
  bool layer_scales = false;     // layer_output_scale.weight, in layers that have it
  bool own_local_heads = false;  // local layers may have heads of another size and number
  // Files may give each layer an input made of the token, and last layers that have no keys and
  // values of their own.
  bool layer_inputs = false;
  bool output_bias = false;  // attn_output.bias
  bool latent = false;       // latent attention
  // Of every few layers, of which the file says how many, all but the last have a gated delta net
  // in place of attention. Sequences then keep a state, which stands for their newest position
  // alone: no drafts are verified, and nothing is kept of ended sequences.
  bool delta_net = false;
  bool tiled_heads = false;     // of a delta net: value head h has the key head h mod their number
  bool joint_numbers = false;   // of a delta net: ssm_ba has the rows of ssm_beta and ssm_alpha
  bool attention_gate = false;  // attn_q has a gate's rows behind those of each head
  bool position_sections = false;  // files say which pairs turn by which number of a position
  bool sinks = false;              // attn_sinks.weight: a logit a query head
  bool expert_biases = false;      // of the router and of each matrix of an expert
  std::string_view feed_forward_norm = "ffn_norm.weight";  // its tensor
  Experts experts = Experts::kNone;
  bool expert_weights_to_one = true;  // those of a row's experts add up to 1
  bool full_width_experts = false;    // each as wide as the feed-forward of the file's key
  bool interleaved_experts = false;   // files say of how many layers the last has experts
  bool sigmoid_routing = false;       // of experts whose files do not state it
  bool scaled_inputs = false;         // an expert's weight is of its input, not of its output
  SharedExpert shared_expert = SharedExpert::kNone;
  // Files state how experts are chosen and weighed, and how many of the first layers have no
  // experts.
  bool own_routing = false;
  bool prediction_layers = false;  // files may have layers behind the last, which are not computed
  int residual_shift = 6;          // prescale 2^-shift of the 16-bit residual (CANONICAL.md)
  double rope_base = 10000.0;      // where the file names none
  bool rope_factors = false;       // files may have rope_freqs.weight
  bool long_factors = false;       // files may have rope_factors_long.weight and _short
  bool part_rotary = false;        // RoPE may turn only the first values of a head
  bool in_shares = false;          // a group of ranks may compute a stage: node/engine/ranks
  std::uint32_t unturned_every = 0;   // of every N layers the last one has no RoPE; 0: all have it
  bool temperature = false;           // scores may grow with the position
  bool unturned_temperature = false;  // the same, in layers without RoPE alone
  // The last of every N layers sees all positions, the others see a window; 0: all layers see all
  // positions. Where local layers have heads of their own, the file says N.
  std::uint32_t global_every = 0;
  bool chunks = false;  // the window of local layers begins at a multiple of its length
  LocalRope local_rope = LocalRope::kOwnBase;
  std::uint32_t window = 0;  // of the local layers, where the file names none
  // In a model with this many layers, hidden / heads replaces head_dim in the scale of the scores.
  std::uint32_t narrow_score_layers = 0;
  std::string_view tokenizer;  // what synthetic models of the family get (synthetic_vocabulary.h)

  // Among this many layers in a row, every kind occurs at least once.
  std::uint32_t period() const {
    return std::max({1U, unturned_every, global_every == kNoGlobal ? 1U : global_every,
                     delta_net ? kUsualInterval : 1U});
  }
};
// Null when no family has this architecture. The error of ModelSpec::read lists the known ones.
const FamilyTraits* find_family(std::string_view architecture);
std::vector<std::string_view> known_families();

// YaRN: slow pairs of a head turn by frequencies divided by rope_scale, fast ones by their own, and
// those between by a mean of the two (Peng et al., "YaRN", 2023).
struct Yarn {
  std::uint32_t context = 0;  // that the model was trained on before
  double fast_turns = 32.0;   // of a pair within that context; from here on it keeps its frequency
  double slow_turns = 1.0;    // up to here its frequency is divided
};

// Latent attention: a position keeps one row for all heads. Its first values give each head its
// keys' plain values and its values, by matrices of that head; the others are turned by RoPE and
// are the last values of every head's key.
struct Latent {
  std::uint32_t query_rank = 0;  // between the two matrices of the queries; 0: they have one
  std::uint32_t width = 0;       // values of a row that keys and values are made of
  std::uint32_t turned = 0;      // those behind them
  std::uint32_t plain = 0;       // values of a query head before those that RoPE turns
  std::uint32_t value = 0;       // values that a head gives
};

// Gated delta nets: of every `every` layers all but the last have one.
struct DeltaNet {
  kernels::DeltaShape shape;
  std::uint32_t every = 1;
  bool joint_input = false;  // ssm_in has the rows of attn_qkv and attn_gate
};

struct ModelSpec {
  const FamilyTraits* family = nullptr;
  std::string name;
  std::uint32_t layers = 0;
  std::uint32_t prediction_layers = 0;  // behind them in the file, for multi-token prediction
  std::uint32_t hidden = 0;
  std::uint32_t feed_forward = 0;         // width; of each expert where there are any
  std::uint32_t dense_layers = 0;         // the first layers, without experts or of another width
  std::uint32_t dense_feed_forward = 0;   // their width
  std::uint32_t experts = 0;              // of each layer; 0: one feed-forward
  std::uint32_t experts_used = 0;         // of them by a row
  std::uint32_t expert_every = 1;         // of so many layers the last has experts
  std::uint32_t shared_feed_forward = 0;  // width of the shared expert; 0: no shared expert
  kernels::ExpertRouting routing;
  bool selection_bias = false;  // of the experts' scores, for the choice alone
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;  // heads * head_dim need not equal hidden
  // Of the local layers, where they have others; else 0.
  std::uint32_t local_kv_heads = 0;
  std::uint32_t local_head_dim = 0;
  // The last layers have no keys and values: each reads those of the last one of its kind before.
  std::uint32_t sharing_layers = 0;
  std::uint32_t layer_input = 0;  // values that each layer is given of the token; 0: none
  std::uint32_t rotary_dim = 0;  // values of a head, its first, that RoPE turns; its last in latent
                                 // attention
  std::optional<Latent> latent;  // in place of keys and values; kv_heads is then 1
  std::optional<DeltaNet> delta;
  bool qkv_bias = false;
  HeadNorms head_norms = HeadNorms::kNone;  // never kMay
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;
  float rms_epsilon = 0.0F;
  double rope_base = 10000.0;
  double rope_scale = 1.0;           // linear scaling: positions divided by it
  std::optional<Yarn> yarn;          // the scaling when it is not linear
  double rope_magnitude = 1.0;       // of cosines and sines
  std::vector<float> rope_factors;   // rotary_dim / 2 divisors of the frequencies, or empty
  bool long_factors = false;         // the file has two sets of them, of which one is in use
  std::uint32_t sliding_window = 0;  // positions that a local layer sees; 0: no layer is local
  std::uint32_t global_every = 0;    // as in the family's traits, or as the file says
  double local_rope_base = 10000.0;  // of the local layers
  float embedding_factor = 1.0F;     // set by files of some families, as are the next three
  float branch_factor = 1.0F;        // of what attention and feed-forward add to the residual
  float logit_factor = 1.0F;
  float score_factor = 0.0F;   // in place of 1 / sqrt(head_dim); 0: that
  double score_stretch = 1.0;  // of queries and keys alike, in the scale of the scores
  float score_cap = 0.0F;      // of softcap; 0: none
  float logit_cap = 0.0F;      // likewise
  // Scores of position P times 1 + temperature * ln(1 + P / length), P / length rounded down; with
  // the next position in place of P where only layers without RoPE have it.
  double temperature = 0.0;
  std::uint32_t temperature_length = 0;
  bool tied_embeddings = false;  // no output.weight: the head is token_embd.weight
  // Of each layer, in a family where it may differ: whether its values are its keys, and whether it
  // has a scale.
  std::vector<bool> shares_keys;
  std::vector<bool> has_scale;
  bool fused_experts = false;  // ffn_gate_up_exps.weight has the rows of an expert's gate and up
  // An embedding model: its output at a prompt's last position represents the prompt (pooling type
  // "last"). It generates no meaningful text.
  bool gives_embeddings = false;
  // The file has a model's shape and holes in place of weights: only emulated cards run it
  // (node/emulation), and nothing that comes of it is an answer.
  bool shape_only = false;
  std::uint64_t parameters = 0;          // elements of all tensors but those below
  std::uint32_t vision_tensors = 0;      // in the file, and not computed
  std::uint32_t prediction_tensors = 0;  // likewise

  // Checks every key and every tensor of the whole model, so that an engine of any layer range
  // finds its tensors. A tensor that the family does not use is refused, because ignoring it would
  // compute another model. Only vision towers and prediction layers are left out, because text does
  // not need them. kInvalidInput for a broken rule, kUnsupported for a well-formed model that this
  // build cannot run; both name key or tensor and the limit.
  static Result<ModelSpec> read(const GgufFile& file);
  // Frequencies of the pairs of a head, factors and scale applied: (rotary_dim / 2). Pinned
  // arithmetic, no libm (CANONICAL.md, RoPE).
  std::vector<double> rope_frequencies() const;
  std::vector<double> local_rope_frequencies() const;
  double local_rope_magnitude() const;
  bool has_experts(std::uint32_t layer) const {
    return experts != 0 && layer >= dense_layers && (layer + 1) % expert_every == 0;
  }
  // The widest of the feed-forwards that a row computes as one: of a layer, or of an expert.
  std::uint32_t widest_feed_forward() const { return std::max(feed_forward, dense_feed_forward); }
  // Values between the matrices of a row's feed-forwards in a layer, at most.
  std::uint64_t feed_forward_values() const {
    return std::max<std::uint64_t>(std::uint64_t{std::max(1U, experts_used)} * feed_forward,
                                   dense_feed_forward);
  }
  std::uint32_t feed_forward_of(std::uint32_t layer) const {
    const bool dense = layer < dense_layers || (experts != 0 && !has_experts(layer));
    return dense ? dense_feed_forward : feed_forward;
  }
  // Whether sequences keep a state in some layers. It cannot go back to an earlier position.
  bool keeps_state() const { return delta.has_value(); }
  bool is_delta(std::uint32_t layer) const { return delta && (layer + 1) % delta->every != 0; }
  // Values of a sequence's state in a layer that keeps one.
  std::uint64_t state_values() const { return delta ? delta->shape.state_values() : 0; }
  bool is_turned(std::uint32_t layer) const {
    return family->unturned_every == 0 || (layer + 1) % family->unturned_every != 0;
  }
  bool is_local(std::uint32_t layer) const {
    return sliding_window > 0 && global_every > 0 && (layer + 1) % global_every != 0;
  }
  // The first position that a row at `position` reads in this layer.
  std::uint32_t first_visible(std::uint32_t layer, std::uint32_t position) const {
    if (!is_local(layer) || position < sliding_window) return 0;
    return family->chunks ? position - position % sliding_window : position + 1 - sliding_window;
  }
  // The scale of attention's scores, without and with what grows with the position, and whether a
  // layer has the latter.
  float plain_score_scale() const;
  float score_scale(std::uint32_t position) const;
  bool scores_grow(std::uint32_t layer) const {
    return temperature != 0.0 && !(family->unturned_temperature && is_turned(layer));
  }
  float embedding_scale() const;  // 1 where the family has none
  // Of the heads of this layer.
  std::uint32_t kv_heads_of(std::uint32_t layer) const {
    return local_kv_heads > 0 && is_local(layer) ? local_kv_heads : kv_heads;
  }
  std::uint32_t head_dim_of(std::uint32_t layer) const {
    return local_head_dim > 0 && is_local(layer) ? local_head_dim : head_dim;
  }
  // Values of all query heads, and of all heads of keys, of the layer that has the most.
  std::uint32_t widest_queries() const { return heads * std::max(head_dim, local_head_dim); }
  std::uint32_t widest_keys() const {
    return std::max(kv_heads * head_dim, local_kv_heads * local_head_dim);
  }
  // Query heads that share a KV head, at most; 0 for a rank without heads.
  std::uint32_t largest_group() const {
    if (heads == 0) return 0;
    return heads / (local_kv_heads > 0 ? std::min(kv_heads, local_kv_heads) : kv_heads);
  }
  bool shares_keys_in(std::uint32_t layer) const {
    return !shares_keys.empty() && shares_keys[layer];
  }
  bool has_scale_in(std::uint32_t layer) const { return !has_scale.empty() && has_scale[layer]; }
  // Whether one stage must hold all layers, because layers read more than the residual.
  bool is_whole() const { return sharing_layers > 0 || layer_input > 0; }
  // The fewest layers of a stage with this one.
  LayerRange least_range(std::uint32_t layer) const {
    return is_whole() ? LayerRange{0, layers} : LayerRange{layer, layer + 1};
  }
  // Whether the layer reads the keys and values of an earlier one.
  bool shares_kv(std::uint32_t layer) const {
    return sharing_layers > 0 && layer + sharing_layers >= layers;
  }
  bool keeps_kv(std::uint32_t layer) const { return !is_delta(layer) && !shares_kv(layer); }
  // The layer whose keys and values this one reads.
  std::uint32_t kv_source(std::uint32_t layer) const;
  // Of the keys and values that a layer keeps; all 0 if it keeps none.
  kernels::KvLayout kv_layout(std::uint32_t layer) const {
    if (!keeps_kv(layer)) return {};
    if (latent) return {1, latent->width + latent->turned, latent->width};
    return {kv_heads_of(layer), head_dim_of(layer), 0};
  }
  std::vector<kernels::KvLayout> kv_layouts(LayerRange layers) const;
};

// A tensor that the spec asks for.
struct ExpectedTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // as the file has them: dims[0] is the contiguous one
  bool is_matrix = false;           // a weight matrix (weight_type), else a vector of F32
  bool is_router = false;           // of a matrix: it says which experts a row uses, or how much
};
std::vector<ExpectedTensor> layer_tensors(const ModelSpec& spec, std::uint32_t layer);
// Those outside the layers: embedding, last norm, the head when it is not tied, RoPE factors.
std::vector<ExpectedTensor> outer_tensors(const ModelSpec& spec);

// The tensor, if it exists with these dims; otherwise an error that names expected and actual dims.
// Its type is not checked.
Result<const TensorInfo*> require_tensor(const GgufFile& file, const std::string& name,
                                         std::vector<std::uint64_t> dims);
std::string layer_tensor(std::uint32_t layer, std::string_view part);  // "blk.3.attn_q.weight"

// The kernels' weight type of a file's tensor type; kUnsupported names the type and the choices.
Result<kernels::WeightType> weight_type(TensorType type, std::string_view tensor);

}  // namespace hearth::model

#include "model/spec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/limits.h"
#include "model/gguf/parts.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::model {
namespace {

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

Error unsupported(std::string message) { return {ErrorCode::kUnsupported, std::move(message)}; }

std::string shape_text(const std::vector<std::uint64_t>& dims) {
  std::string text = "[";
  for (const std::uint64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

// The keys of one architecture: "llama." + suffix, with the range that a value must lie in.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  bool has(std::string_view suffix) const { return file_.find(name(suffix)) != nullptr; }
  std::string name(std::string_view suffix) const { return prefix_ + std::string(suffix); }

  // A number, or an array that has the same one for every layer.
  Result<std::uint64_t> whole(std::string_view suffix) const {
    const GgufValue* value = file_.find(name(suffix));
    const auto* array = value != nullptr ? std::get_if<GgufArray>(value) : nullptr;
    if (array == nullptr) return file_.get_uint(name(suffix));
    const auto constant = [](const auto* items) {
      return items != nullptr && !items->empty() &&
             std::ranges::count(*items, items->front()) == std::ssize(*items);
    };
    const auto* naturals = std::get_if<std::vector<std::uint64_t>>(&array->items);
    const auto* integers = std::get_if<std::vector<std::int64_t>>(&array->items);
    if (constant(naturals)) return naturals->front();
    if (constant(integers) && integers->front() >= 0)
      return static_cast<std::uint64_t>(integers->front());
    return not_served(suffix, "is an array; only the same number for every layer is served");
  }

  // `absent`: the value where the file has no such key; nothing: that is an error.
  Result<std::uint32_t> integer(std::string_view suffix, std::uint32_t low, std::uint32_t high,
                                std::optional<std::uint32_t> absent = {}) const {
    if (!has(suffix) && absent) return *absent;
    if (!has(suffix)) return bad(suffix, "is missing");
    TRY(const std::uint64_t value, whole(suffix));
    if (value < low || value > high) {
      return bad(suffix, "is " + std::to_string(value) + "; it must be from " +
                             std::to_string(low) + " to " + std::to_string(high));
    }
    return static_cast<std::uint32_t>(value);
  }

  // Above `low`, up to `high`; never NaN.
  Result<double> real(std::string_view suffix, double low, double high,
                      std::optional<double> absent = {}) const {
    if (!has(suffix) && absent) return *absent;
    if (!has(suffix)) return bad(suffix, "is missing");
    TRY(const double value, file_.get_float(name(suffix)));
    if (!(value > low && value <= high)) {
      return bad(suffix, "is " + std::to_string(value) + "; it must be above " +
                             std::to_string(low) + " and at most " + std::to_string(high));
    }
    return value;
  }

  Error bad(std::string_view suffix, const std::string& what) const {
    return Error::invalid("key " + quote(name(suffix)) + " " + what);
  }
  Error not_served(std::string_view suffix, const std::string& what) const {
    return unsupported("key " + quote(name(suffix)) + " " + what);
  }
  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

Result<const FamilyTraits*> read_family(const GgufFile& file) {
  TRY(const std::string architecture, file.get_string("general.architecture"));
  const FamilyTraits* family = find_family(architecture);
  if (family != nullptr) return family;
  std::string known;
  for (const std::string_view name : known_families()) {
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  constexpr std::array<std::string_view, 7> kEncoders = {
      "bert",        "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "gemma-embedding",
      "modern-bert", "t5encoder"};
  if (std::ranges::find(kEncoders, architecture) != kEncoders.end()) {
    return unsupported("architecture " + quote(architecture) +
                       " is not served: its positions see later ones, and here each sees the "
                       "earlier ones alone; for embeddings use a model of qwen3, such as "
                       "qwen3-embedding");
  }
  return unsupported("architecture " + quote(architecture) + " is not served; known are: " + known);
}

// The model's title: general.name, else the file's name without .gguf, and without a part's number.
std::string display_name(const GgufFile& file) {
  const Result<std::string> name = file.get_string("general.name");
  if (name.ok() && !name->empty() && name->size() <= limits::kModelNameBytes && is_utf8(*name) &&
      !has_control_bytes(*name)) {
    return *name;
  }
  std::string stem = file.path().substr(file.path().find_last_of('/') + 1);
  if (const auto part = part_name(stem)) return part->stem;
  if (stem.size() > 5 && stem.ends_with(".gguf")) stem.resize(stem.size() - 5);
  return stem;
}

Status require_blocks(const Keys& keys, std::string_view suffix, std::uint32_t value) {
  if (value % kernels::kBlock == 0) return ok_status();
  return keys.bad(suffix, "is " + std::to_string(value) + "; it must be a multiple of " +
                              std::to_string(kernels::kBlock));
}

Status read_sizes(const Keys& keys, ModelSpec& spec) {
  TRY(spec.layers, keys.integer("block_count", 1, limits::kModelLayers));
  TRY(spec.context, keys.integer("context_length", 1, limits::kModelContext));
  TRY(spec.hidden, keys.integer("embedding_length", 1, limits::kModelWidth));
  return require_blocks(keys, "embedding_length", spec.hidden);
}

// A width that is named by its own key, or that another key's gives.
Result<std::uint32_t> read_width(const Keys& keys, std::string_view suffix, std::string_view other,
                                 std::uint32_t divisor = 1) {
  const bool own = keys.has(suffix);
  TRY(std::uint32_t width, keys.integer(own ? suffix : other, 1, limits::kModelFeedForward));
  if (!own) {
    if (width % divisor != 0) {
      return keys.bad(other, "is " + std::to_string(width) + "; without key " +
                                 quote(keys.name(suffix)) + " it must be a multiple of the " +
                                 std::to_string(divisor) + " experts that a row uses");
    }
    width /= divisor;
  }
  TRY_VOID(require_blocks(keys, own ? suffix : other, width));
  return width;
}

// Ways to choose experts that would need other code.
Status refuse_expert_variants(const Keys& keys, const FamilyTraits& family) {
  constexpr std::uint32_t kSoftmax = 1;  // 0: the file does not say
  const std::uint32_t any = ~std::uint32_t{0};
  for (const auto& [suffix, most] : {std::pair("expert_group_count", 1U),
                                     {"expert_gating_func", kSoftmax},
                                     {"leading_dense_block_count", 0U},
                                     {"interleave_moe_layer_step", 1U}}) {
    TRY(const std::uint32_t value, keys.integer(suffix, 0, any, 0));
    if (value <= most) continue;
    return keys.not_served(suffix, "is " + std::to_string(value) + "; of this family at most " +
                                       std::to_string(most) + " is served");
  }
  if (keys.has("expert_weights_scale")) {
    TRY(const double scale, keys.file().get_float(keys.name("expert_weights_scale")));
    if (scale != 0.0 && scale != 1.0) {
      return keys.not_served("expert_weights_scale",
                             "is " + std::to_string(scale) + "; only 1 is served");
    }
  }
  if (keys.has("expert_weights_norm")) {
    TRY(const bool norm, keys.file().get_bool(keys.name("expert_weights_norm")));
    if (norm != family.expert_weights_to_one) {
      return keys.not_served("expert_weights_norm", std::string("is ") + (norm ? "true" : "false") +
                                                        "; this family has the opposite");
    }
  }
  return ok_status();
}

// The width of the feed-forward, and how many there are.
Status read_feed_forward(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kCount = "expert_count";
  constexpr std::string_view kWidth = "feed_forward_length";
  constexpr std::string_view kExpertWidth = "expert_feed_forward_length";
  const FamilyTraits& family = *spec.family;
  const bool always = family.experts == Experts::kAlways;
  if (always || keys.has(kCount)) {
    TRY(spec.experts, keys.integer(kCount, 0, limits::kModelExperts));
  }
  if (spec.experts > 0 && family.experts == Experts::kNone) {
    return keys.not_served(kCount, "is " + std::to_string(spec.experts) + "; models of " +
                                       std::string(family.architecture) +
                                       " with a mixture of experts are not served");
  }
  if (spec.experts == 1 || (spec.experts == 0 && always)) {
    return keys.bad(kCount, "is " + std::to_string(spec.experts) + "; it must be from 2 to " +
                                std::to_string(limits::kModelExperts));
  }
  if (spec.experts == 0) {
    TRY(spec.feed_forward, read_width(keys, kWidth, kWidth));
    return ok_status();
  }
  TRY(spec.experts_used,
      keys.integer("expert_used_count", 1, std::min(spec.experts, limits::kModelExpertsUsed)));
  TRY_VOID(refuse_expert_variants(keys, family));
  if (always) {
    TRY(spec.feed_forward, read_width(keys, kExpertWidth, kWidth, spec.experts_used));
  } else {
    TRY(spec.feed_forward, read_width(keys, kWidth, kWidth));
    TRY(const std::uint32_t own,
        keys.integer(kExpertWidth, 1, limits::kModelFeedForward, spec.feed_forward));
    if (own != spec.feed_forward) {
      return keys.not_served(
          kExpertWidth, "is " + std::to_string(own) + "; in this family it must equal the " +
                            std::to_string(spec.feed_forward) + " of " + quote(keys.name(kWidth)));
    }
  }
  if (family.shared_expert) {
    TRY(spec.shared_feed_forward, read_width(keys, "expert_shared_feed_forward_length", kWidth));
  }
  return ok_status();
}

Status read_heads(const Keys& keys, ModelSpec& spec) {
  TRY(spec.heads, keys.integer("attention.head_count", 1, limits::kModelHeads));
  TRY(spec.kv_heads, keys.integer("attention.head_count_kv", 1, spec.heads, spec.heads));
  if (spec.heads % spec.kv_heads != 0) {
    return keys.bad("attention.head_count",
                    "is " + std::to_string(spec.heads) + "; it must be a multiple of the " +
                        std::to_string(spec.kv_heads) + " key and value heads");
  }
  if (keys.has("attention.key_length")) {
    TRY(spec.head_dim, keys.integer("attention.key_length", 1, limits::kModelHeadDim));
  } else if (spec.hidden % spec.heads == 0) {
    spec.head_dim = spec.hidden / spec.heads;
  } else {
    return keys.bad("embedding_length", "is " + std::to_string(spec.hidden) +
                                            "; it must be a multiple of the " +
                                            std::to_string(spec.heads) + " heads");
  }
  if (spec.head_dim % kernels::kBlock != 0 || spec.head_dim > limits::kModelHeadDim) {
    return unsupported("heads of " + std::to_string(spec.head_dim) +
                       " values; served are multiples of " + std::to_string(kernels::kBlock) +
                       " up to " + std::to_string(limits::kModelHeadDim));
  }
  if (spec.layers == spec.family->narrow_score_layers && spec.hidden % spec.heads != 0) {
    return keys.bad("embedding_length", "is " + std::to_string(spec.hidden) + "; in a model of " +
                                            std::to_string(spec.layers) +
                                            " layers it must be a multiple of the " +
                                            std::to_string(spec.heads) + " heads");
  }
  if (std::uint64_t{spec.heads} * spec.head_dim > limits::kModelWidth) {
    return keys.bad("attention.head_count", "times the head's " + std::to_string(spec.head_dim) +
                                                " values is above the limit of " +
                                                std::to_string(limits::kModelWidth));
  }
  for (const std::string_view suffix :
       {"attention.value_length", "attention.key_length_swa", "attention.value_length_swa",
        "rope.dimension_count", "rope.dimension_count_swa"}) {
    if (!keys.has(suffix)) continue;
    TRY(const std::uint32_t value, keys.integer(suffix, 1, limits::kModelHeadDim));
    if (value != spec.head_dim) {
      return keys.not_served(suffix, "is " + std::to_string(value) +
                                         "; only the head's full length of " +
                                         std::to_string(spec.head_dim) + " is served");
    }
  }
  return ok_status();
}

// Variants of the architecture that would need other code.
Status refuse_variants(const Keys& keys) {
  if (keys.has("attention.causal")) {
    TRY(const bool causal, keys.file().get_bool(keys.name("attention.causal")));
    if (!causal) return keys.not_served("attention.causal", "is false; only causal models are");
  }
  for (const std::string_view suffix :
       {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "attention.scale",
        "embedding_scale", "residual_scale"}) {
    if (!keys.has(suffix)) continue;
    TRY(const double value, keys.file().get_float(keys.name(suffix)));
    if (value != 0.0) {
      return keys.not_served(suffix, "is " + std::to_string(value) + "; only 0 (none) is served");
    }
  }
  return ok_status();
}

// The factor of the scaling; 1 without one.
Status read_rope_factor(const Keys& keys, ModelSpec& spec) {
  for (const std::string_view suffix : {"rope.scaling.factor", "rope.scale_linear"}) {
    if (!keys.has(suffix)) continue;
    TRY(const double factor, keys.file().get_float(keys.name(suffix)));
    if (factor == 0.0) return ok_status();  // writers use 0 for "no scaling"
    TRY(spec.rope_scale, keys.real(suffix, 1.0 / limits::kRopeScale, limits::kRopeScale));
    return ok_status();
  }
  return ok_status();
}

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// How far YaRN stretches what is compared, for a multiplier of its logarithm.
double yarn_magnitude(double scale, double multiplier) {
  if (scale <= 1.0) return 1.0;
  return 1.0 + (0.1 * multiplier) * (kernels::log2_canonical(scale) * kLn2);
}

Status read_yarn(const Keys& keys, ModelSpec& spec) {
  constexpr double kTurnsMin = 1e-6;
  constexpr double kTurnsMax = 1e6;
  constexpr double kMultiplierMax = 100.0;
  Yarn yarn;
  TRY(yarn.context,
      keys.integer("rope.scaling.original_context_length", 1, limits::kModelContext, spec.context));
  const auto turns = [&](std::string_view suffix, double absent) {
    return keys.real(suffix, kTurnsMin, kTurnsMax, absent);
  };
  TRY(yarn.fast_turns, turns("rope.scaling.yarn_beta_fast", yarn.fast_turns));
  TRY(yarn.slow_turns, turns("rope.scaling.yarn_beta_slow", yarn.slow_turns));
  TRY(const double blend, keys.real("rope.scaling.yarn_ext_factor", -2.0, 1.0, 1.0));
  if (blend != 1.0 && blend != -1.0) {  // -1: the file does not say
    return keys.not_served("rope.scaling.yarn_ext_factor",
                           "is " + std::to_string(blend) + "; only 1 is served");
  }
  constexpr std::string_view kMultiplier = "rope.scaling.yarn_log_multiplier";
  TRY(const double multiplier, keys.real(kMultiplier, -1.0, kMultiplierMax, 0.0));
  if (multiplier < 0.0) return keys.bad(kMultiplier, "is below 0");
  spec.rope_magnitude =
      yarn_magnitude(spec.rope_scale, 1.0) / yarn_magnitude(spec.rope_scale, multiplier);
  spec.yarn = yarn;
  return ok_status();
}

// Positions are divided by the factor when the scaling is linear, which it also is when only a
// factor is given.
Status read_rope_scale(const Keys& keys, ModelSpec& spec) {
  std::string type = "linear";
  if (keys.has("rope.scaling.type")) {
    TRY(type, keys.file().get_string(keys.name("rope.scaling.type")));
  }
  TRY(const double magnitude, keys.real("rope.scaling.attn_factor", 0.0, limits::kRopeScale, 1.0));
  if (type == "linear") {
    TRY_VOID(read_rope_factor(keys, spec));
  } else if (type == "yarn") {
    TRY_VOID(read_rope_factor(keys, spec));
    TRY_VOID(read_yarn(keys, spec));
  } else if (type != "none") {
    return keys.not_served("rope.scaling.type",
                           "is " + quote(type) + "; served are: linear, yarn, none");
  }
  spec.rope_magnitude *= magnitude;
  return ok_status();
}

Result<const TensorInfo*> require_vector(const GgufFile& file, const std::string& name,
                                         std::vector<std::uint64_t> dims) {
  TRY(const TensorInfo* tensor, require_tensor(file, name, std::move(dims)));
  if (tensor->type == TensorType::kF32) return tensor;
  return unsupported("tensor " + quote(name) + " is of type " +
                     tensor_type_name(static_cast<std::uint32_t>(tensor->type)) +
                     "; only F32 is served for it");
}

Status read_rope_factors(const GgufFile& file, ModelSpec& spec) {
  if (!spec.family->rope_factors || file.find_tensor(kRopeFactors) == nullptr) return ok_status();
  TRY(const TensorInfo* tensor,
      require_vector(file, std::string(kRopeFactors), {spec.head_dim / 2}));
  spec.rope_factors.resize(spec.head_dim / 2);
  const ByteSpan bytes = file.tensor_bytes(*tensor);
  std::memcpy(spec.rope_factors.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < spec.rope_factors.size(); ++i) {
    const double factor = spec.rope_factors[i];
    if (!(factor >= 1.0 / limits::kRopeScale && factor <= limits::kRopeScale)) {
      return Error::invalid("tensor " + quote(kRopeFactors) + ": factor " + std::to_string(i) +
                            " is " + std::to_string(factor) + "; it must be from 1/65536 to 65536");
    }
  }
  return ok_status();
}

Status read_numbers(const Keys& keys, ModelSpec& spec) {
  TRY(const double epsilon, keys.real("attention.layer_norm_rms_epsilon", 0.0, 1.0));
  spec.rms_epsilon = static_cast<float>(epsilon);
  if (!(spec.rms_epsilon > 0.0F)) {
    return keys.bad("attention.layer_norm_rms_epsilon", "is too small for a 32-bit number");
  }
  TRY(spec.rope_base, keys.real("rope.freq_base", 1.0, limits::kRopeBase, spec.family->rope_base));
  return read_rope_scale(keys, spec);
}

// How a model of embeddings makes one vector of a prompt's positions. A file that names a way is of
// such a model, and is refused where the way is another one: to compute it as a model that
// generates would be to compute another model.
Status read_pooling(const Keys& keys, ModelSpec& spec) {
  constexpr std::array<std::string_view, 5> kWays = {"none", "mean", "cls", "last", "rank"};
  constexpr std::uint32_t kLast = 3;
  TRY(const std::uint32_t type, keys.integer("pooling_type", 0, kWays.size() - 1, 0));
  if (type == 0) return ok_status();
  if (type != kLast) {
    return keys.not_served("pooling_type", "is " + std::to_string(type) + " (" +
                                               std::string(kWays[type]) +
                                               "); of models of embeddings only those with 3 "
                                               "(last) are served, such as qwen3-embedding");
  }
  if (spec.hidden > limits::kEmbeddingValues) {
    return keys.not_served("embedding_length",
                           "is " + std::to_string(spec.hidden) + "; embeddings have at most " +
                               std::to_string(limits::kEmbeddingValues) + " values");
  }
  spec.gives_embeddings = true;
  return ok_status();
}

// Whether the key is an array that says of every layer whether it is local, and says what the
// family does.
bool says_local_layers(const Keys& keys, std::string_view suffix, const ModelSpec& spec) {
  const GgufValue* value = keys.file().find(keys.name(suffix));
  const auto* array = std::get_if<GgufArray>(value);
  const auto* local = array != nullptr ? std::get_if<std::vector<bool>>(&array->items) : nullptr;
  if (local == nullptr || local->size() != spec.layers) return false;
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    if ((*local)[layer] != ((layer + 1) % spec.family->global_every != 0)) return false;
  }
  return true;
}

// A window in a family without local layers is refused where it could hide anything.
Status read_sliding_window(const Keys& keys, ModelSpec& spec) {
  const std::uint32_t every = spec.family->global_every;
  TRY(const std::uint32_t window,
      keys.integer("attention.sliding_window", 0, limits::kModelContext, 0));
  if (every == 0) {
    if (window == 0 || window >= spec.context) return ok_status();
    return keys.not_served("attention.sliding_window",
                           "is " + std::to_string(window) + ", below the context of " +
                               std::to_string(spec.context) + "; no layer of this family has one");
  }
  spec.sliding_window = window;
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  if (keys.has(kPattern) && !says_local_layers(keys, kPattern, spec)) {
    TRY(const std::uint64_t pattern, keys.whole(kPattern));
    if (pattern != every) {
      return keys.not_served(kPattern, "is " + std::to_string(pattern) + "; only " +
                                           std::to_string(every) + " is served");
    }
  }
  constexpr std::string_view kBase = "rope.freq_base_swa";
  if (spec.family->local_rope == LocalRope::kOwnBase) {
    TRY(spec.local_rope_base, keys.real(kBase, 1.0, limits::kRopeBase, spec.local_rope_base));
    return ok_status();
  }
  TRY(const double base, keys.real(kBase, 1.0, limits::kRopeBase, spec.rope_base));
  if (base == spec.rope_base) return ok_status();
  return keys.not_served(kBase, "is " + std::to_string(base) + "; only the base of all layers, " +
                                    std::to_string(spec.rope_base) + ", is served");
}

// The embedding has a row a token; the key and the tokenizer's list, where present, must agree.
Status read_vocabulary(const Keys& keys, ModelSpec& spec) {
  const GgufFile& file = keys.file();
  const TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) return Error::invalid("tensor 'token_embd.weight' is missing");
  if (embedding->dims.size() != 2 || embedding->dims[1] > limits::kVocabulary) {
    return Error::invalid("tensor 'token_embd.weight' has shape " + shape_text(embedding->dims) +
                          "; it must have 2 dimensions and at most " +
                          std::to_string(limits::kVocabulary) + " rows");
  }
  spec.vocabulary = static_cast<std::uint32_t>(embedding->dims[1]);
  const std::string rows = std::to_string(spec.vocabulary) + " rows of 'token_embd.weight'";
  if (keys.has("vocab_size")) {
    TRY(const std::uint64_t size, file.get_uint(keys.name("vocab_size")));
    if (size != spec.vocabulary) {
      return keys.bad("vocab_size", "is " + std::to_string(size) + "; it must equal the " + rows);
    }
  }
  const GgufValue* value = file.find("tokenizer.ggml.tokens");
  if (value == nullptr) return ok_status();
  const auto* tokens = std::get_if<GgufArray>(value);
  if (tokens == nullptr) return Error::invalid("key 'tokenizer.ggml.tokens' must be an array");
  if (tokens->size() != spec.vocabulary) {
    return Error::invalid("key 'tokenizer.ggml.tokens' has " + std::to_string(tokens->size()) +
                          " items; it must have as many as the " + rows);
  }
  return ok_status();
}

Status check_tensor(const GgufFile& file, const ExpectedTensor& expected) {
  if (!expected.is_matrix) {
    TRY_VOID(require_vector(file, expected.name, expected.dims));
    return ok_status();
  }
  TRY(const TensorInfo* tensor, require_tensor(file, expected.name, expected.dims));
  TRY_VOID(weight_type(tensor->type, expected.name));
  return ok_status();
}

// Of a vision tower and of its projection into the text model, which is whole without them.
bool is_vision(std::string_view tensor) {
  return tensor.starts_with("v.") || tensor.starts_with("mm.");
}

Status check_tensors(const GgufFile& file, const ModelSpec& spec) {
  std::set<std::string> names;
  const auto check_all = [&](std::vector<ExpectedTensor> list) -> Status {
    for (ExpectedTensor& expected : list) {
      TRY_VOID(check_tensor(file, expected));
      names.insert(std::move(expected.name));
    }
    return ok_status();
  };
  TRY_VOID(check_all(outer_tensors(spec)));
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    TRY_VOID(check_all(layer_tensors(spec, layer)));
  }
  for (const TensorInfo& tensor : file.tensors()) {
    if (names.count(tensor.name) != 0 || is_vision(tensor.name)) continue;
    return unsupported("tensor " + quote(tensor.name) + " has no place in a " +
                       std::string(spec.family->architecture) + " model of " +
                       std::to_string(spec.layers) + " layers");
  }
  return ok_status();
}

Result<ModelSpec> read_spec(const GgufFile& file) {
  ModelSpec spec;
  TRY(spec.family, read_family(file));
  const Keys keys(file, spec.family->architecture);
  spec.name = display_name(file);
  TRY_VOID(read_sizes(keys, spec));
  TRY_VOID(read_feed_forward(keys, spec));
  TRY_VOID(read_heads(keys, spec));
  TRY_VOID(refuse_variants(keys));
  TRY_VOID(read_numbers(keys, spec));
  TRY_VOID(read_sliding_window(keys, spec));
  TRY_VOID(read_pooling(keys, spec));
  TRY_VOID(read_vocabulary(keys, spec));
  TRY_VOID(read_rope_factors(file, spec));
  spec.tied_embeddings = file.find_tensor("output.weight") == nullptr;
  TRY_VOID(check_tensors(file, spec));
  for (const TensorInfo& tensor : file.tensors()) {
    if (is_vision(tensor.name)) {
      ++spec.vision_tensors;
    } else {
      spec.parameters += tensor.elements();
    }
  }
  return spec;
}

// Of YaRN: pairs up to the first number keep their frequency, those from the second one on have it
// divided. The number of turns of a pair within the context falls with its index.
std::pair<double, double> yarn_range(const Yarn& yarn, double base, std::uint32_t width) {
  constexpr double kTwoPi = 0x1.921fb54442d18p+2;
  const auto index = [&](double turns) {
    const double context = yarn.context;
    return (width * kernels::log2_canonical(context / (turns * kTwoPi))) /
           (2.0 * kernels::log2_canonical(base));
  };
  const double low = std::max(0.0, std::floor(index(yarn.fast_turns)));
  const double high = std::min(width - 1.0, std::ceil(index(yarn.slow_turns)));
  return {low, high};
}

// base^(-2i/d) of the pairs of a head.
std::vector<double> powers_of(double base, std::uint32_t head_dim) {
  std::vector<double> powers(head_dim / 2);
  for (std::size_t i = 0; i < powers.size(); ++i) {
    const double exponent = -(2.0 * static_cast<double>(i)) / static_cast<double>(head_dim);
    powers[i] = kernels::pow_canonical(base, exponent);
  }
  return powers;
}

}  // namespace

Result<ModelSpec> ModelSpec::read(const GgufFile& file) {
  Result<ModelSpec> spec = read_spec(file);
  if (spec.ok()) return spec;
  Error error = std::move(spec).error();
  // A model without a key is a broken model, not one that does not exist.
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kInvalidInput;
  const std::string path = quote(file.path());
  if (!error.message.starts_with(path)) error.message = path + ": " + error.message;
  return error;
}

// The power, then the pair's own factor, then the scale: three roundings in this order.
std::vector<double> ModelSpec::rope_frequencies() const {
  std::vector<double> frequencies = powers_of(rope_base, head_dim);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    if (!rope_factors.empty()) frequencies[i] /= static_cast<double>(rope_factors[i]);
    if (!yarn) frequencies[i] /= rope_scale;
  }
  if (!yarn) return frequencies;
  const auto [low, high] = yarn_range(*yarn, rope_base, head_dim);
  const double width = std::max(0.001, high - low);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double place = (static_cast<double>(i) - low) / width;
    const double t = std::clamp(place, 0.0, 1.0);
    const double own = frequencies[i];
    frequencies[i] = (own / rope_scale) * t + own * (1.0 - t);
  }
  return frequencies;
}

std::vector<double> ModelSpec::local_rope_frequencies() const {
  if (family->local_rope == LocalRope::kSame) return rope_frequencies();
  return powers_of(local_rope_base, head_dim);
}

double ModelSpec::local_rope_magnitude() const {
  return family->local_rope == LocalRope::kSame ? rope_magnitude : 1.0;
}

float ModelSpec::score_scale() const {
  const bool narrow = layers == family->narrow_score_layers;
  return 1.0F / std::sqrt(static_cast<float>(narrow ? hidden / heads : head_dim));
}

float ModelSpec::embedding_scale() const {
  return family->scale_embeddings ? std::sqrt(static_cast<float>(hidden)) : 1.0F;
}

Result<const TensorInfo*> require_tensor(const GgufFile& file, const std::string& name,
                                         std::vector<std::uint64_t> dims) {
  const TensorInfo* tensor = file.find_tensor(name);
  if (tensor == nullptr) {
    return Error::invalid("tensor " + quote(name) + " of shape " + shape_text(dims) +
                          " is missing");
  }
  // A file may have a matrix of one row as a vector.
  const bool is_row = dims.size() == 2 && dims[1] == 1 && tensor->dims.size() == 1;
  if (is_row ? tensor->dims[0] != dims[0] : tensor->dims != dims) {
    return Error::invalid("tensor " + quote(name) + " has shape " + shape_text(tensor->dims) +
                          "; it must be " + shape_text(dims));
  }
  return tensor;
}

Result<kernels::WeightType> weight_type(TensorType type, std::string_view tensor) {
  switch (type) {
    case TensorType::kF32: return kernels::WeightType::kF32;
    case TensorType::kF16: return kernels::WeightType::kF16;
    case TensorType::kBF16: return kernels::WeightType::kBF16;
    case TensorType::kQ8_0: return kernels::WeightType::kQ8_0;
    case TensorType::kQ4_0: return kernels::WeightType::kQ4_0;
    case TensorType::kQ4_1: return kernels::WeightType::kQ4_1;
    case TensorType::kQ5_0: return kernels::WeightType::kQ5_0;
    case TensorType::kQ5_1: return kernels::WeightType::kQ5_1;
    case TensorType::kIQ4_NL: return kernels::WeightType::kIQ4_NL;
    case TensorType::kQ2_K: return kernels::WeightType::kQ2_K;
    case TensorType::kQ3_K: return kernels::WeightType::kQ3_K;
    case TensorType::kQ4_K: return kernels::WeightType::kQ4_K;
    case TensorType::kQ5_K: return kernels::WeightType::kQ5_K;
    case TensorType::kQ6_K: return kernels::WeightType::kQ6_K;
    case TensorType::kIQ4_XS: return kernels::WeightType::kIQ4_XS;
    case TensorType::kMXFP4: return kernels::WeightType::kMXFP4;
    default: break;
  }
  return unsupported("tensor " + quote(tensor) + " is of type " +
                     tensor_type_name(static_cast<std::uint32_t>(type)) +
                     ", which no kernel computes");
}

}  // namespace hearth::model

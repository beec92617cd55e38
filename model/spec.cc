#include "model/spec.h"

#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/limits.h"
#include "model/gguf/manifest.h"
#include "model/gguf/parts.h"
#include "model/gguf/untrusted_text.h"
#include "model/spec_delta.h"
#include "model/spec_experts.h"
#include "model/spec_keys.h"
#include "model/spec_latent.h"
#include "model/spec_local.h"
#include "model/spec_rope.h"

namespace hearth::model {
namespace {

std::string shape_text(const std::vector<std::uint64_t>& dims) {
  std::string text = "[";
  for (const std::uint64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

// The number of letters to insert, remove or replace that turns `a` into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t corner = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({replaced, corner + 1, row[j] + 1});
    }
  }
  return row[b.size()];
}

std::string_view nearest_family(std::string_view architecture) {
  const std::vector<std::string_view> names = known_families();
  const std::string_view begin = architecture.substr(0, 64);  // names are short
  return *std::ranges::min_element(names, {},
                                   [&](std::string_view name) { return distance(begin, name); });
}

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
    return unsupported("architecture ", quote(architecture),
                       " is not served: its positions see later positions, and only causal models "
                       "are served; for embeddings use a model of qwen3, such as qwen3-embedding");
  }
  return unsupported("architecture ", quote(architecture), " is not served; known are: ", known,
                     "; the nearest is ", nearest_family(architecture));
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

Status read_sizes(const Keys& keys, ModelSpec& spec) {
  TRY(spec.layers, keys.integer("block_count", 1, limits::kModelLayers));
  if (spec.family->prediction_layers) {
    TRY(spec.prediction_layers, keys.integer("nextn_predict_layers", 0, spec.layers - 1, 0));
    spec.layers -= spec.prediction_layers;
  }
  TRY(spec.context, keys.integer("context_length", 1, limits::kModelContext));
  TRY(spec.hidden, keys.integer("embedding_length", 1, limits::kModelWidth));
  return keys.whole_blocks("embedding_length", spec.hidden);
}

Status read_heads(const Keys& keys, ModelSpec& spec) {
  if (spec.family->latent) return read_latent_heads(keys, spec);
  if (spec.family->own_local_heads) return read_local_heads(keys, spec);
  TRY(spec.heads, keys.integer("attention.head_count", 1, limits::kModelHeads));
  TRY(spec.kv_heads, keys.integer("attention.head_count_kv", 1, spec.heads, spec.heads));
  if (spec.heads % spec.kv_heads != 0) {
    return keys.bad("attention.head_count", "is ", spec.heads, "; it must be a multiple of the ",
                    spec.kv_heads, " key and value heads");
  }
  if (keys.has("attention.key_length")) {
    TRY(spec.head_dim, keys.integer("attention.key_length", 1, limits::kModelHeadDim));
  } else if (spec.hidden % spec.heads == 0) {
    spec.head_dim = spec.hidden / spec.heads;
  } else {
    return keys.bad("embedding_length", "is ", spec.hidden, "; it must be a multiple of the ",
                    spec.heads, " heads");
  }
  if (spec.head_dim % kernels::kBlock != 0 || spec.head_dim > limits::kModelHeadDim) {
    return unsupported("heads of ", spec.head_dim, " values; served are multiples of ",
                       kernels::kBlock, " up to ", limits::kModelHeadDim);
  }
  if (spec.layers == spec.family->narrow_score_layers && spec.hidden % spec.heads != 0) {
    return keys.bad("embedding_length", "is ", spec.hidden, "; in a model of ", spec.layers,
                    " layers it must be a multiple of the ", spec.heads, " heads");
  }
  if (std::uint64_t{spec.heads} * spec.head_dim > limits::kModelWidth) {
    return keys.bad("attention.head_count", "times the head's ", spec.head_dim,
                    " values is above the limit of ", limits::kModelWidth);
  }
  spec.rotary_dim = spec.head_dim;
  if (spec.family->part_rotary) {
    TRY(spec.rotary_dim, keys.integer("rope.dimension_count", 1, spec.head_dim, spec.head_dim));
    if (spec.rotary_dim % kernels::kBlock != 0) {
      return keys.not_served("rope.dimension_count", "is ", spec.rotary_dim,
                             "; served are multiples of ", kernels::kBlock);
    }
  }
  for (const std::string_view suffix :
       {"attention.value_length", "attention.key_length_swa", "attention.value_length_swa",
        "rope.dimension_count", "rope.dimension_count_swa"}) {
    if (spec.family->part_rotary && suffix == "rope.dimension_count") continue;
    if (!keys.has(suffix)) continue;
    TRY(const std::uint32_t value, keys.integer(suffix, 1, limits::kModelHeadDim));
    if (value != spec.head_dim) {
      return keys.not_served(suffix, "is ", value, "; only the head's full length of ",
                             spec.head_dim, " is served");
    }
  }
  return ok_status();
}

// Refuses variants of the architecture that would need other code.
Status refuse_variants(const Keys& keys, const FamilyTraits& family) {
  if (keys.has("attention.causal")) {
    TRY(const bool causal, keys.file().get_bool(keys.name("attention.causal")));
    if (!causal) return keys.not_served("attention.causal", "is false; only causal models are");
  }
  const auto read_later = [&](std::string_view suffix) {
    if (suffix == "final_logit_softcapping" && family.logit_cap) return true;
    return suffix.ends_with("softcapping") ? family.caps : family.scales;
  };
  for (const std::string_view suffix :
       {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "attention.scale",
        "embedding_scale", "residual_scale"}) {
    if (!keys.has(suffix) || read_later(suffix)) continue;
    TRY(const double value, keys.file().get_float(keys.name(suffix)));
    if (value != 0.0) return keys.not_served(suffix, "is ", value, "; only 0 (none) is served");
  }
  TRY(const std::uint32_t more, keys.integer("nextn_predict_layers", 0, limits::kModelLayers, 0));
  if (more != 0 && !family.prediction_layers) {
    return keys.not_served("nextn_predict_layers", "is ", more, "; only 0 is served");
  }
  if (family.part_rotary && !family.position_sections && keys.has("rope.dimension_sections")) {
    return keys.not_served(
        "rope.dimension_sections",
        "is present; models with several numbers a position (multimodal RoPE) are not served");
  }
  if (family.scales && keys.has("rope.scaling.finetuned")) {
    constexpr std::string_view kTurned = "rope.scaling.finetuned";
    TRY(const bool turned, keys.file().get_bool(keys.name(kTurned)));
    if (!turned) return keys.not_served(kTurned, "is false; only models with RoPE are served");
  }
  return ok_status();
}

// A scale, `absent` where the file names none or 0. Its inverse is finite in 32 bits as well.
Result<float> read_scale(const Keys& keys, std::string_view suffix, float absent) {
  constexpr double kScaleMin = 1e-6;
  constexpr double kScaleMax = 65'536.0;
  if (!keys.has(suffix)) return absent;
  TRY(const double value, keys.file().get_float(keys.name(suffix)));
  if (value == 0.0) return absent;
  TRY(const double scale, keys.real(suffix, kScaleMin, kScaleMax));
  return static_cast<float>(scale);
}

Status read_scales(const Keys& keys, ModelSpec& spec) {
  const FamilyTraits& family = *spec.family;
  if (family.scales) {
    TRY(spec.embedding_factor, read_scale(keys, "embedding_scale", 1.0F));
    TRY(spec.branch_factor, read_scale(keys, "residual_scale", 1.0F));
    TRY(spec.score_factor, read_scale(keys, "attention.scale", 0.0F));
    TRY(const float divisor, read_scale(keys, "logit_scale", 1.0F));
    spec.logit_factor = 1.0F / divisor;
  }
  if (family.caps) {
    TRY(spec.score_cap, read_scale(keys, "attn_logit_softcapping", 50.0F));
    TRY(spec.logit_cap, read_scale(keys, "final_logit_softcapping", 30.0F));
  }
  if (family.logit_cap) {
    constexpr std::string_view kCap = "final_logit_softcapping";
    TRY(spec.logit_cap, read_scale(keys, kCap, keys.has(kCap) ? 0.0F : 30.0F));
  }
  if (family.score_factor > 0.0F) spec.score_factor = family.score_factor;
  constexpr std::string_view kTemperature = "attention.temperature_scale";
  constexpr double kTemperatureMax = 100.0;
  if (family.unturned_temperature) {
    constexpr std::uint32_t kLength = 8192;
    TRY(spec.temperature, keys.real(kTemperature, 0.0, kTemperatureMax, double{0.1F}));
    TRY(spec.temperature_length,
        keys.integer("attention.temperature_length", 1, limits::kModelContext, kLength));
    return ok_status();
  }
  if (!family.temperature || !keys.has(kTemperature)) return ok_status();
  TRY(spec.temperature, keys.file().get_float(keys.name(kTemperature)));
  if (spec.temperature == 0.0) return ok_status();
  TRY(spec.temperature, keys.real(kTemperature, 0.0, kTemperatureMax));
  TRY(spec.temperature_length,
      keys.integer("rope.scaling.original_context_length", 1, limits::kModelContext, spec.context));
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

// The pooling of an embedding model, which makes one vector of a prompt's positions. A file with a
// pooling type is an embedding model. Unsupported types are refused, because computing the file as
// a model that generates would give wrong results.
Status read_pooling(const Keys& keys, ModelSpec& spec) {
  constexpr std::array<std::string_view, 5> kWays = {"none", "mean", "cls", "last", "rank"};
  constexpr std::uint32_t kLast = 3;
  TRY(const std::uint32_t type, keys.integer("pooling_type", 0, kWays.size() - 1, 0));
  if (type == 0) return ok_status();
  if (type != kLast) {
    return keys.not_served(
        "pooling_type", "is ", type, " (", kWays[type],
        "); of embedding models, only those with 3 (last) are served, such as qwen3-embedding");
  }
  if (spec.hidden > limits::kEmbeddingValues) {
    return keys.not_served("embedding_length", "is ", spec.hidden, "; embeddings have at most ",
                           limits::kEmbeddingValues, " values");
  }
  spec.gives_embeddings = true;
  return ok_status();
}

// Whether the key is an array that marks each layer as local or not and agrees with the family.
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

// In a family without local layers, a window is refused if it would hide any position.
Status read_sliding_window(const Keys& keys, ModelSpec& spec) {
  if (spec.global_every == 0) spec.global_every = spec.family->global_every;
  const std::uint32_t every = spec.global_every;
  TRY(const std::uint32_t window,
      keys.integer("attention.sliding_window", 0, limits::kModelContext, spec.family->window));
  if ((spec.family->own_local_heads || spec.family->chunks) && window == 0) {
    return keys.bad("attention.sliding_window", "is 0 or missing; local layers must see something");
  }
  if (every == 0) {
    if (window == 0 || window >= spec.context) return ok_status();
    return keys.not_served("attention.sliding_window", "is ", window, ", below the context of ",
                           spec.context, "; no layer of this family has one");
  }
  const LocalRope angles = spec.family->local_rope;
  const double base = angles == LocalRope::kOwnBase ? spec.local_rope_base : spec.rope_base;
  TRY(spec.local_rope_base, keys.real("rope.freq_base_swa", 1.0, limits::kRopeBase, base));
  // A local layer whose window covers the context is like the others, if its RoPE is the same.
  const bool same = angles == LocalRope::kSame && spec.local_rope_base == spec.rope_base;
  spec.sliding_window = same && window >= spec.context ? 0 : window;
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  if (keys.has(kPattern) && !spec.family->own_local_heads &&
      !says_local_layers(keys, kPattern, spec)) {
    const std::uint32_t wanted = every == kNoGlobal ? 0 : every;
    TRY(const std::uint64_t pattern, keys.whole(kPattern));
    if (pattern != wanted) {
      return keys.not_served(kPattern, "is ", pattern, "; only ", wanted, " is served");
    }
  }
  return ok_status();
}

// The embedding has a row a token; the key and the tokenizer's list, where present, must agree.
Status read_vocabulary(const Keys& keys, ModelSpec& spec) {
  const GgufFile& file = keys.file();
  const TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) return Error::invalid("tensor 'token_embd.weight' is missing");
  if (embedding->dims.size() != 2 || embedding->dims[1] > limits::kVocabulary) {
    return Error::invalid("tensor 'token_embd.weight' has shape ", shape_text(embedding->dims),
                          "; it must have 2 dimensions and at most ", limits::kVocabulary, " rows");
  }
  spec.vocabulary = static_cast<std::uint32_t>(embedding->dims[1]);
  const std::string rows = std::to_string(spec.vocabulary) + " rows of 'token_embd.weight'";
  if (keys.has("vocab_size")) {
    TRY(const std::uint64_t size, file.get_uint(keys.name("vocab_size")));
    if (size != spec.vocabulary) {
      return keys.bad("vocab_size", "is ", size, "; it must equal the ", rows);
    }
  }
  const GgufValue* value = file.find("tokenizer.ggml.tokens");
  if (value == nullptr) return ok_status();
  const auto* tokens = std::get_if<GgufArray>(value);
  if (tokens == nullptr) return Error::invalid("key 'tokenizer.ggml.tokens' must be an array");
  if (tokens->size() != spec.vocabulary) {
    return Error::invalid("key 'tokenizer.ggml.tokens' has ", tokens->size(),
                          " items; it must have as many as the ", rows);
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

// Tensors of a vision tower and of its projection; the text model is complete without them.
bool is_vision(std::string_view tensor) {
  return tensor.starts_with("v.") || tensor.starts_with("mm.");
}

// Whether the tensor is in a layer that reads another's keys and values and is not computed there.
// Some files have it.
bool is_unused(std::string_view tensor, const ModelSpec& spec) {
  const auto layer = layer_of(tensor);
  if (!layer || *layer >= spec.layers || !spec.shares_kv(*layer)) return false;
  return tensor.ends_with(".attn_k.weight") || tensor.ends_with(".attn_v.weight") ||
         tensor.ends_with(".attn_k_norm.weight");
}

// Whether the tensor is in a layer behind the last one.
bool is_prediction(std::string_view tensor, const ModelSpec& spec) {
  const auto layer = layer_of(tensor);
  return layer && *layer >= spec.layers && *layer < spec.layers + spec.prediction_layers;
}

// A manifest identifies those layers by this tensor, so that a node with the last layer also gets
// the head.
Status check_prediction(const GgufFile& file, std::string_view tensor) {
  const std::string mark = layer_tensor(*layer_of(tensor), kPredictionMark);
  if (file.find_tensor(mark) != nullptr) return ok_status();
  return Error::invalid("tensor ", quote(mark), " is missing; tensor ", quote(tensor),
                        " is in a layer for multi-token prediction, which must have both");
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
    if (is_unused(tensor.name, spec)) continue;
    if (is_prediction(tensor.name, spec)) {
      TRY_VOID(check_prediction(file, tensor.name));
      continue;
    }
    return unsupported("tensor ", quote(tensor.name), " has no place in a ",
                       spec.family->architecture, " model of ", spec.layers, " layers");
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
  TRY_VOID(read_delta_net(keys, spec));
  TRY_VOID(read_position_sections(keys, spec));
  TRY_VOID(refuse_variants(keys, *spec.family));
  TRY_VOID(read_scales(keys, spec));
  TRY_VOID(read_numbers(keys, spec));
  TRY_VOID(read_sliding_window(keys, spec));
  TRY_VOID(read_pooling(keys, spec));
  if (file.find(kShapeOnlyKey) != nullptr) {
    TRY(spec.shape_only, file.get_bool(kShapeOnlyKey));
  }
  TRY_VOID(read_vocabulary(keys, spec));
  TRY_VOID(read_rope_factors(keys, spec));
  spec.qkv_bias =
      spec.family->qkv_bias ||
      (spec.family->qkv_bias_may && file.find_tensor(layer_tensor(0, "attn_q.bias")) != nullptr);
  spec.head_norms = spec.family->head_norms;
  if (spec.head_norms == HeadNorms::kMay) {
    const bool has = file.find_tensor(layer_tensor(0, "attn_q_norm.weight")) != nullptr;
    spec.head_norms = has ? HeadNorms::kEach : HeadNorms::kNone;
  }
  if (spec.head_norms == HeadNorms::kPlain && spec.experts == kExpertsWithoutNorms) {
    spec.head_norms = HeadNorms::kNone;
  }
  spec.tied_embeddings = file.find_tensor("output.weight") == nullptr;
  TRY_VOID(check_tensors(file, spec));
  for (const TensorInfo& tensor : file.tensors()) {
    if (is_vision(tensor.name)) {
      ++spec.vision_tensors;
    } else if (is_prediction(tensor.name, spec)) {
      ++spec.prediction_tensors;
    } else if (!is_unused(tensor.name, spec)) {
      spec.parameters += tensor.elements();
    }
  }
  return spec;
}

}  // namespace

Result<ModelSpec> ModelSpec::read(const GgufFile& file) {
  Result<ModelSpec> spec = read_spec(file);
  if (spec.ok()) return spec;
  Error error = std::move(spec).error();
  // A missing key means a broken file, so the error is not kNotFound.
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kInvalidInput;
  const std::string path = quote(file.path());
  if (!error.message.starts_with(path)) error.message = path + ": " + error.message;
  return error;
}

std::uint32_t ModelSpec::kv_source(std::uint32_t layer) const {
  if (!shares_kv(layer)) return layer;
  std::uint32_t source = layers - sharing_layers;
  while (source > 0) {
    if (is_local(--source) == is_local(layer)) return source;
  }
  return layer;  // read_local_heads() refuses such a model
}

std::vector<kernels::KvLayout> ModelSpec::kv_layouts(LayerRange range) const {
  std::vector<kernels::KvLayout> layouts;
  for (std::uint32_t i = range.begin; i < range.end; ++i) layouts.push_back(kv_layout(i));
  return layouts;
}

float ModelSpec::embedding_scale() const {
  return family->scale_embeddings ? std::sqrt(static_cast<float>(hidden)) : embedding_factor;
}

Result<const TensorInfo*> require_tensor(const GgufFile& file, const std::string& name,
                                         std::vector<std::uint64_t> dims) {
  const TensorInfo* tensor = file.find_tensor(name);
  if (tensor == nullptr) {
    return Error::invalid("tensor ", quote(name), " of shape ", shape_text(dims), " is missing");
  }
  // In a file, a matrix with one row may be stored as a vector.
  const bool is_row = dims.size() == 2 && dims[1] == 1 && tensor->dims.size() == 1;
  if (is_row ? tensor->dims[0] != dims[0] : tensor->dims != dims) {
    return Error::invalid("tensor ", quote(name), " has shape ", shape_text(tensor->dims),
                          "; it must be ", shape_text(dims));
  }
  return tensor;
}

Result<const TensorInfo*> require_vector(const GgufFile& file, const std::string& name,
                                         std::vector<std::uint64_t> dims) {
  TRY(const TensorInfo* tensor, require_tensor(file, name, std::move(dims)));
  if (tensor->type == TensorType::kF32) return tensor;
  return unsupported("tensor ", quote(name), " is of type ",
                     tensor_type_name(static_cast<std::uint32_t>(tensor->type)),
                     "; only F32 is served for it");
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
    case TensorType::kIQ2_XXS: return kernels::WeightType::kIQ2_XXS;
    case TensorType::kIQ2_XS: return kernels::WeightType::kIQ2_XS;
    case TensorType::kIQ2_S: return kernels::WeightType::kIQ2_S;
    case TensorType::kIQ3_XXS: return kernels::WeightType::kIQ3_XXS;
    case TensorType::kIQ3_S: return kernels::WeightType::kIQ3_S;
    case TensorType::kIQ1_S: return kernels::WeightType::kIQ1_S;
    case TensorType::kIQ1_M: return kernels::WeightType::kIQ1_M;
    case TensorType::kTQ1_0: return kernels::WeightType::kTQ1_0;
    case TensorType::kTQ2_0: return kernels::WeightType::kTQ2_0;
    default: break;
  }
  return unsupported("tensor ", quote(tensor), " is of type ",
                     tensor_type_name(static_cast<std::uint32_t>(type)),
                     ", which no kernel computes");
}

}  // namespace hearth::model

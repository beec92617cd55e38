#include "model/spec_local.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace hearth::model {
namespace {

// The number N of which every N-th layer is global, as the file's list has it.
Result<std::uint32_t> read_pattern(const Keys& keys, std::uint32_t layers) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const GgufValue* value = keys.file().find(keys.name(kPattern));
  const auto* array = value != nullptr ? std::get_if<GgufArray>(value) : nullptr;
  const auto* local = array != nullptr ? std::get_if<std::vector<bool>>(&array->items) : nullptr;
  if (local == nullptr || local->size() != layers) {
    return keys.bad(kPattern, "must be an array of ", layers,
                    " truth values, one a layer, true for a local one");
  }
  const auto first = std::ranges::find(*local, false);
  const auto every = static_cast<std::uint32_t>(first - local->begin()) + 1;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    if ((*local)[layer] == ((layer + 1) % every != 0)) continue;
    return keys.not_served(kPattern, "breaks its pattern at layer ", layer,
                           "; served are lists of which every N-th layer is false");
  }
  return every;
}

// Numbers of the local layers and of the others, which must each have the same.
Result<std::pair<std::uint32_t, std::uint32_t>> read_kinds(const Keys& keys,
                                                           std::string_view suffix,
                                                           const ModelSpec& spec) {
  if (!keys.has(suffix)) return std::pair(spec.heads, spec.heads);
  TRY(const std::vector<std::uint32_t> items, keys.of_layers(suffix, spec.layers, 1, spec.heads));
  std::uint32_t of_kind[2] = {0, 0};  // of global and of local layers
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    std::uint32_t& kind = of_kind[(layer + 1) % spec.global_every != 0 ? 1 : 0];
    if (kind != 0 && kind != items[layer]) {
      return keys.not_served(suffix, "changes at layer ", layer,
                             "; served is one number for all local layers and one "
                             "for all others");
    }
    kind = items[layer];
  }
  if (of_kind[0] == 0) of_kind[0] = of_kind[1];  // no layer of that kind
  if (of_kind[1] == 0) of_kind[1] = of_kind[0];
  return std::pair(of_kind[1], of_kind[0]);
}

Status check_kv_heads(const Keys& keys, std::uint32_t heads, std::uint32_t kv_heads) {
  if (heads % kv_heads == 0) return ok_status();
  return keys.bad("attention.head_count", "is ", heads, "; it must be a multiple of the ", kv_heads,
                  " key and value heads");
}

// The size of the heads of one kind, which values have as well and RoPE turns as a whole.
Result<std::uint32_t> read_size(const Keys& keys, std::uint32_t heads, std::string_view key,
                                std::string_view value, std::string_view turned) {
  TRY(const std::uint32_t size, keys.integer(key, 1, limits::kModelHeadDim));
  TRY_VOID(keys.whole_blocks(key, size));
  if (std::uint64_t{heads} * size > limits::kModelWidth) {
    return keys.bad(key, "is ", size, "; times the ", heads, " heads it is above the limit of ",
                    limits::kModelWidth);
  }
  for (const std::string_view other : {value, turned}) {
    TRY(const std::uint32_t same, keys.integer(other, 0, ~std::uint32_t{0}, size));
    if (same == size) continue;
    return keys.not_served(other, "is ", same, "; only the head's full length of ", size,
                           " is served");
  }
  return size;
}

// Of the family's smallest models, whose layers read more than the residual.
Status read_layer_inputs(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kInput = "embedding_length_per_layer_input";
  constexpr std::string_view kShared = "attention.shared_kv_layers";
  if (!spec.family->layer_inputs) return ok_status();
  TRY(spec.layer_input, keys.integer(kInput, 0, limits::kModelWidth, 0));
  TRY_VOID(keys.whole_blocks(kInput, spec.layer_input));
  if (std::uint64_t{spec.layer_input} * spec.layers > limits::kModelFeedForward) {
    return keys.bad(kInput, "is ", spec.layer_input, "; times the ", spec.layers,
                    " layers it is above the limit of ", limits::kModelFeedForward);
  }
  TRY(spec.sharing_layers, keys.integer(kShared, 0, spec.layers - 1, 0));
  for (std::uint32_t layer = spec.layers - spec.sharing_layers; layer < spec.layers; ++layer) {
    std::uint32_t source = spec.layers - spec.sharing_layers;
    const auto is_global = [&](std::uint32_t i) { return (i + 1) % spec.global_every == 0; };
    while (source > 0 && is_global(source - 1) != is_global(layer)) --source;
    if (source > 0) continue;
    return keys.bad(kShared, "is ", spec.sharing_layers, "; of the ",
                    spec.layers - spec.sharing_layers,
                    " layers before, none is of the kind of layer ", layer);
  }
  return ok_status();
}

}  // namespace

Status read_local_heads(const Keys& keys, ModelSpec& spec) {
  TRY(spec.heads, keys.integer("attention.head_count", 1, limits::kModelHeads));
  TRY(spec.global_every, read_pattern(keys, spec.layers));
  TRY_VOID(read_layer_inputs(keys, spec));
  TRY(const auto kv_heads, read_kinds(keys, "attention.head_count_kv", spec));
  spec.local_kv_heads = kv_heads.first;
  spec.kv_heads = kv_heads.second;
  TRY_VOID(check_kv_heads(keys, spec.heads, spec.kv_heads));
  TRY_VOID(check_kv_heads(keys, spec.heads, spec.local_kv_heads));
  TRY(spec.head_dim, read_size(keys, spec.heads, "attention.key_length", "attention.value_length",
                               "rope.dimension_count"));
  TRY(spec.local_head_dim, read_size(keys, spec.heads, "attention.key_length_swa",
                                     "attention.value_length_swa", "rope.dimension_count_swa"));
  spec.rotary_dim = spec.head_dim;
  const auto has = [&](std::uint32_t layer, std::string_view part) {
    return keys.file().find_tensor(layer_tensor(layer, part)) != nullptr;
  };
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    const bool keeps = spec.keeps_kv(layer);
    spec.shares_keys.push_back(spec.family->keys_as_values && keeps &&
                               !has(layer, "attn_v.weight"));
    spec.has_scale.push_back(spec.family->layer_scales && has(layer, "layer_output_scale.weight"));
  }
  spec.fused_experts = has(0, "ffn_gate_up_exps.weight");
  return ok_status();
}

}  // namespace hearth::model

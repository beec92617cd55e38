#include "model/spec_delta.h"

#include <array>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "base/limits.h"

namespace hearth::model {
namespace {

constexpr std::string_view kEvery = "full_attention_interval";

// The key is a list of all layers of the file, and says what the other key does.
Status check_pattern(const Keys& keys, const ModelSpec& spec) {
  constexpr std::string_view kStates = "attention.recurrent_layers";
  const GgufValue* value = keys.file().find(keys.name(kStates));
  if (value == nullptr) return ok_status();
  const auto* array = std::get_if<GgufArray>(value);
  const auto* states = array != nullptr ? std::get_if<std::vector<bool>>(&array->items) : nullptr;
  if (states == nullptr || states->size() != spec.layers + spec.prediction_layers) {
    return keys.bad(kStates, "must be a list of ", spec.layers + spec.prediction_layers,
                    " booleans, one a layer");
  }
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    if ((*states)[layer] == spec.is_delta(layer)) continue;
    return keys.not_served(kStates, "says of layer ", layer, " another thing than key ",
                           quote(keys.name(kEvery)));
  }
  return ok_status();
}

// The list of the key: as many integers, none negative.
Result<std::array<std::uint64_t, 4>> read_four(const Keys& keys, std::string_view suffix) {
  std::array<std::uint64_t, 4> four{};
  const auto copy = [&](const auto* items) {
    if (items == nullptr || items->size() != four.size()) return false;
    for (std::size_t i = 0; i < four.size(); ++i) {
      if (!std::in_range<std::uint64_t>((*items)[i])) return false;
      four[i] = static_cast<std::uint64_t>((*items)[i]);
    }
    return true;
  };
  const auto* array = std::get_if<GgufArray>(keys.file().find(keys.name(suffix)));
  const bool read =
      array != nullptr && (copy(std::get_if<std::vector<std::uint64_t>>(&array->items)) ||
                           copy(std::get_if<std::vector<std::int64_t>>(&array->items)));
  if (read) return four;
  return keys.bad(suffix, "must be a list of 4 numbers from 0 on");
}

}  // namespace

Status read_delta_net(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kKeyHeads = "ssm.group_count";
  constexpr std::string_view kValueHeads = "ssm.time_step_rank";
  constexpr std::string_view kHead = "ssm.state_size";
  constexpr std::string_view kInner = "ssm.inner_size";
  if (!spec.family->delta_net) return ok_status();
  DeltaNet delta;
  TRY(delta.every, keys.integer(kEvery, 1, limits::kModelLayers, kUsualInterval));
  kernels::DeltaShape& shape = delta.shape;
  TRY(shape.key_heads, keys.integer(kKeyHeads, 1, limits::kModelHeads));
  TRY(shape.value_heads, keys.integer(kValueHeads, 1, limits::kModelHeads));
  if (shape.value_heads % shape.key_heads != 0) {
    return keys.bad(kValueHeads, "is ", shape.value_heads, "; it must be a multiple of the ",
                    shape.key_heads, " of ", quote(keys.name(kKeyHeads)));
  }
  TRY(shape.head, keys.integer(kHead, 1, limits::kModelHeadDim));
  TRY_VOID(keys.whole_blocks(kHead, shape.head));
  TRY(shape.taps, keys.integer("ssm.conv_kernel", 1, limits::kModelTaps));
  const std::uint64_t heads = 2ULL * shape.key_heads + shape.value_heads;
  if (heads * shape.head > limits::kModelWidth) {
    return keys.bad(kHead, "is ", shape.head, "; times the ", heads,
                    " heads of queries, keys and values it is above the limit of ",
                    limits::kModelWidth);
  }
  TRY(const std::uint32_t inner, keys.integer(kInner, 0, ~std::uint32_t{0}, shape.inner()));
  if (inner != shape.inner()) {
    return keys.bad(kInner, "is ", inner, "; with ", shape.value_heads, " heads of ", shape.head,
                    " values it must be ", shape.inner());
  }
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    if ((layer + 1) % delta.every == 0) continue;
    delta.joint_input = spec.family->joint_numbers &&
                        keys.file().find_tensor(layer_tensor(layer, "ssm_in.weight")) != nullptr;
    break;
  }
  spec.delta = delta;
  return check_pattern(keys, spec);
}

Status read_position_sections(const Keys& keys, const ModelSpec& spec) {
  constexpr std::string_view kSections = "rope.dimension_sections";
  if (!spec.family->position_sections || !keys.has(kSections)) return ok_status();
  TRY(const auto sections, read_four(keys, kSections));
  const std::uint64_t pairs = spec.rotary_dim / 2;
  const std::uint64_t all = sections[0] + sections[1] + sections[2] + sections[3];
  bool same = sections[0] < pairs && sections[1] < pairs && sections[2] < pairs && all == pairs;
  // Pair i takes the number i mod 3, where that section reaches so far, else the fourth.
  for (std::uint64_t i = 0; same && i < pairs; ++i) same = i < 3 * sections[i % 3];
  if (same) return ok_status();
  return keys.not_served(kSections, "is ", sections[0], ", ", sections[1], ", ", sections[2], ", ",
                         sections[3], "; served are three sections that turn all ", pairs,
                         " pairs in turns");
}

}  // namespace hearth::model

#include "model/spec_experts.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace hearth::model {
namespace {

constexpr std::uint32_t kSoftmax = 1;  // of a file's gating functions; 0: it does not say
constexpr std::uint32_t kSigmoid = 2;

// A width that has a key of its own, or follows from another key.
Result<std::uint32_t> read_width(const Keys& keys, std::string_view suffix, std::string_view other,
                                 std::uint32_t divisor = 1) {
  const bool own = keys.has(suffix);
  TRY(std::uint32_t width, keys.integer(own ? suffix : other, 1, limits::kModelFeedForward));
  if (!own) {
    if (width % divisor != 0) {
      return keys.bad(other, "is ", width, "; without key ", quote(keys.name(suffix)),
                      " it must be a multiple of the ", divisor, " experts that a row uses");
    }
    width /= divisor;
  }
  TRY_VOID(keys.whole_blocks(own ? suffix : other, width));
  return width;
}

// Refuses other ways of choosing experts in a family that has only one way.
Status refuse_expert_variants(const Keys& keys, const FamilyTraits& family) {
  const std::uint32_t any = ~std::uint32_t{0};
  constexpr std::string_view kFunction = "expert_gating_func";
  TRY(const std::uint32_t function, keys.integer(kFunction, 0, any, 0));
  if (function != 0 && function != (family.sigmoid_routing ? kSigmoid : kSoftmax)) {
    return keys.not_served(kFunction, "is ", function, "; of this family only ",
                           family.sigmoid_routing ? "2 (sigmoid)" : "1 (softmax)", " is served");
  }
  for (const auto& [suffix, most] :
       {std::pair("expert_group_count", 1U), {"leading_dense_block_count", 0U}}) {
    TRY(const std::uint32_t value, keys.integer(suffix, 0, any, 0));
    if (value <= most) continue;
    return keys.not_served(suffix, "is ", value, "; of this family at most ", most, " is served");
  }
  if (keys.has("expert_weights_scale")) {
    TRY(const double scale, keys.file().get_float(keys.name("expert_weights_scale")));
    if (scale != 0.0 && scale != 1.0) {
      return keys.not_served("expert_weights_scale", "is ", scale, "; only 1 is served");
    }
  }
  if (keys.has("expert_weights_norm")) {
    TRY(const bool norm, keys.file().get_bool(keys.name("expert_weights_norm")));
    if (norm != family.expert_weights_to_one) {
      return keys.not_served("expert_weights_norm", "is ", (norm ? "true" : "false"),
                             "; this family has the opposite");
    }
  }
  return ok_status();
}

// Some groups of experts, chosen before the experts are.
Status read_expert_groups(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kGroups = "expert_group_count";
  constexpr std::string_view kUsed = "expert_group_used_count";
  constexpr std::uint32_t kLeast = 2;  // experts of a group, whose scores are added
  TRY(const std::uint32_t groups, keys.integer(kGroups, 0, spec.experts, 0));
  if (groups <= 1) return ok_status();
  if (spec.experts % groups != 0 || spec.experts / groups < kLeast) {
    return keys.bad(kGroups, "is ", groups, "; the ", spec.experts,
                    " experts must be as many groups ", "of the same size, each of at least ",
                    kLeast);
  }
  TRY(spec.routing.groups_used, keys.integer(kUsed, 1, groups));
  spec.routing.groups = groups;
  const std::uint32_t within = spec.routing.groups_used * (spec.experts / groups);
  if (spec.experts_used <= within) return ok_status();
  return keys.bad(kUsed, "is ", spec.routing.groups_used, "; its groups have ", within,
                  " experts, and a row uses ", spec.experts_used);
}

// Reads how a row's experts are chosen and weighed, in a family whose files state it.
Status read_routing(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kFunction = "expert_gating_func";
  constexpr std::string_view kScale = "expert_weights_scale";
  constexpr std::string_view kToOne = "expert_weights_norm";
  constexpr double kScaleMax = 1024.0;
  TRY(spec.dense_layers, keys.integer("leading_dense_block_count", 0, spec.layers - 1, 0));
  if (spec.dense_layers > 0) {
    TRY(spec.dense_feed_forward, read_width(keys, "feed_forward_length", "feed_forward_length"));
  }
  const std::string bias = layer_tensor(spec.dense_layers, kSelectionBias);
  spec.selection_bias = keys.file().find_tensor(bias) != nullptr;
  TRY(std::uint32_t function, keys.integer(kFunction, 0, ~std::uint32_t{0}, 0));
  if (function == 0) function = spec.selection_bias ? kSigmoid : kSoftmax;
  if (function != kSoftmax && function != kSigmoid) {
    return keys.not_served(kFunction, "is ", function,
                           "; only 1 (softmax) and 2 (sigmoid) are served");
  }
  spec.routing.sigmoid = function == kSigmoid;
  if (spec.selection_bias && !spec.routing.sigmoid) {
    return keys.not_served(kFunction, "is 1 (softmax); with tensor ", quote(bias),
                           " only 2 (sigmoid) is served");
  }
  if (keys.has(kToOne)) {
    TRY(spec.routing.to_one, keys.file().get_bool(keys.name(kToOne)));
  }
  if (keys.has(kScale)) {
    TRY(const double scale, keys.file().get_float(keys.name(kScale)));
    if (scale != 0.0) {
      TRY(const double held, keys.real(kScale, 1.0 / kScaleMax, kScaleMax));
      spec.routing.scale = static_cast<float>(held);
    }
  }
  return read_expert_groups(keys, spec);
}

// One width, or an array of those of all layers: one for the first ones, another for the rest.
Status read_two_widths(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kWidth = "feed_forward_length";
  TRY(const std::vector<std::uint32_t> widths,
      keys.of_layers(kWidth, spec.layers, 1, limits::kModelFeedForward));
  spec.feed_forward = widths.back();
  spec.dense_feed_forward = widths.front();
  while (widths[spec.dense_layers] != spec.feed_forward) ++spec.dense_layers;
  for (std::uint32_t layer = 0; layer < spec.layers; ++layer) {
    TRY_VOID(keys.whole_blocks(kWidth, widths[layer]));
    if (widths[layer] == spec.feed_forward_of(layer)) continue;
    return keys.not_served(kWidth, "changes at layer ", layer,
                           "; served are one number for the first layers and one for "
                           "the others");
  }
  if (spec.dense_layers == 0) spec.dense_feed_forward = 0;
  return ok_status();
}

// Of how many layers the last has experts.
Status read_interleave(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kEvery = "interleave_moe_layer_step";
  if (spec.family->interleaved_experts) {
    TRY(spec.expert_every, keys.integer(kEvery, 1, spec.layers));
    if (spec.expert_every == 1) return ok_status();
    TRY(spec.dense_feed_forward, read_width(keys, "feed_forward_length", "feed_forward_length"));
    return ok_status();
  }
  TRY(const std::uint32_t every, keys.integer(kEvery, 0, ~std::uint32_t{0}, 0));
  if (every <= 1) return ok_status();
  return keys.not_served(kEvery, "is ", every, "; at most 1 is served");
}

Status read_shared_expert(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kWidth = "expert_shared_feed_forward_length";
  constexpr std::string_view kCount = "expert_shared_count";
  const SharedExpert kind = spec.family->shared_expert;
  if (kind == SharedExpert::kNone) return ok_status();
  if (kind == SharedExpert::kOne) {
    spec.shared_feed_forward = spec.feed_forward;
    return ok_status();
  }
  if (kind == SharedExpert::kCounted) {
    const std::uint32_t most = limits::kModelFeedForward / spec.feed_forward;
    TRY(const std::uint32_t count, keys.integer(kCount, 0, most, 0));
    spec.shared_feed_forward = count * spec.feed_forward;
    return ok_status();
  }
  if (kind == SharedExpert::kGated || kind == SharedExpert::kBeside) {
    constexpr std::string_view kOther = "feed_forward_length";
    const bool beside = kind == SharedExpert::kBeside;
    TRY(spec.shared_feed_forward, read_width(keys, beside ? kOther : kWidth, kOther));
    return ok_status();
  }
  TRY(spec.shared_feed_forward, keys.integer(kWidth, 0, limits::kModelFeedForward, 0));
  return keys.whole_blocks(kWidth, spec.shared_feed_forward);
}

}  // namespace

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
    return keys.not_served(kCount, "is ", spec.experts, "; models of ", family.architecture,
                           " with a mixture of experts are not served");
  }
  if (spec.experts == 1 || (spec.experts == 0 && always)) {
    return keys.bad(kCount, "is ", spec.experts, "; it must be from 2 to ", limits::kModelExperts);
  }
  if (spec.experts == 0 && family.layer_inputs) return read_two_widths(keys, spec);
  if (spec.experts == 0) {
    TRY(spec.feed_forward, read_width(keys, kWidth, kWidth));
    return ok_status();
  }
  TRY(spec.experts_used,
      keys.integer("expert_used_count", 1, std::min(spec.experts, limits::kModelExpertsUsed)));
  TRY_VOID(read_interleave(keys, spec));
  spec.routing.to_one = family.expert_weights_to_one;
  spec.routing.sigmoid = family.sigmoid_routing;
  TRY_VOID(family.own_routing ? read_routing(keys, spec) : refuse_expert_variants(keys, family));
  if (!family.full_width_experts) {
    TRY(spec.feed_forward, read_width(keys, kExpertWidth, kWidth, spec.experts_used));
  } else {
    TRY(spec.feed_forward, read_width(keys, kWidth, kWidth));
    TRY(const std::uint32_t own,
        keys.integer(kExpertWidth, 1, limits::kModelFeedForward, spec.feed_forward));
    if (own != spec.feed_forward) {
      return keys.not_served(kExpertWidth, "is ", own, "; in this family it must equal the ",
                             spec.feed_forward, " of ", quote(keys.name(kWidth)));
    }
  }
  return read_shared_expert(keys, spec);
}

}  // namespace hearth::model

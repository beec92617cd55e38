#include "model/spec_latent.h"

#include "base/limits.h"

namespace hearth::model {
namespace {

// A width of whole blocks that the file must name.
Result<std::uint32_t> read_blocks(const Keys& keys, std::string_view suffix, std::uint32_t most) {
  TRY(const std::uint32_t width, keys.integer(suffix, 1, most));
  TRY_VOID(keys.whole_blocks(suffix, width));
  return width;
}

// A key that is absent, or repeats what other keys say.
Status check_same(const Keys& keys, std::string_view suffix, std::uint32_t expected) {
  TRY(const std::uint32_t value, keys.integer(suffix, 0, ~std::uint32_t{0}, expected));
  if (value == expected) return ok_status();
  return keys.bad(suffix, "is ", value, "; with the other widths it must be ", expected);
}

Status check_all_heads(const Keys& keys, std::string_view suffix, std::uint32_t heads,
                       std::uint32_t width) {
  if (std::uint64_t{heads} * width <= limits::kModelWidth) return ok_status();
  return keys.bad(suffix, "is ", width, "; times the ", heads, " heads it is above the limit of ",
                  limits::kModelWidth);
}

}  // namespace

Status read_latent_heads(const Keys& keys, ModelSpec& spec) {
  constexpr std::string_view kKey = "attention.key_length_mla";
  constexpr std::string_view kValue = "attention.value_length_mla";
  constexpr std::string_view kTurned = "rope.dimension_count";
  constexpr std::string_view kRank = "attention.q_lora_rank";
  constexpr std::string_view kTemperature = "attention.temperature_scale";
  TRY(spec.heads, keys.integer("attention.head_count", 1, limits::kModelHeads));
  if (!keys.has(kKey)) {
    return keys.not_served(kKey,
                           "is missing: the file was made before April 2025 and holds keys and "
                           "values in one matrix; get a newer file of this model");
  }
  spec.kv_heads = 1;
  TRY_VOID(check_same(keys, "attention.head_count_kv", 1));
  Latent latent;
  TRY(latent.width, read_blocks(keys, "attention.kv_lora_rank", limits::kModelLatent));
  TRY(latent.turned, read_blocks(keys, kTurned, limits::kModelHeadDim));
  if (latent.width + latent.turned > limits::kModelLatent) {
    return keys.bad(kTurned, "is ", latent.turned, "; with the ", latent.width,
                    " values of 'attention.kv_lora_rank' it is above the limit of ",
                    limits::kModelLatent);
  }
  TRY_VOID(check_same(keys, "attention.key_length", latent.width + latent.turned));
  TRY_VOID(check_same(keys, "attention.value_length", latent.width));
  TRY(spec.head_dim, read_blocks(keys, kKey, limits::kModelHeadDim));
  if (spec.head_dim <= latent.turned) {
    return keys.bad(kKey, "is ", spec.head_dim, "; it must be above the ", latent.turned, " of ",
                    quote(keys.name(kTurned)));
  }
  latent.plain = spec.head_dim - latent.turned;
  TRY(latent.value, read_blocks(keys, kValue, limits::kModelHeadDim));
  TRY_VOID(check_all_heads(keys, kKey, spec.heads, spec.head_dim));
  TRY_VOID(check_all_heads(keys, kValue, spec.heads, latent.value));
  TRY(latent.query_rank, keys.integer(kRank, 0, limits::kModelWidth, 0));
  TRY_VOID(keys.whole_blocks(kRank, latent.query_rank));
  if (keys.has(kTemperature)) {
    TRY(const double temperature, keys.file().get_float(keys.name(kTemperature)));
    if (temperature != 0.0) {
      return keys.not_served(kTemperature, "is ", temperature,
                             "; only 0 (none) is served with latent attention");
    }
  }
  spec.rotary_dim = latent.turned;
  spec.latent = latent;
  return ok_status();
}

}  // namespace hearth::model

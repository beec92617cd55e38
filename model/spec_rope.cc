#include "model/spec_rope.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/limits.h"

namespace hearth::model {
namespace {

constexpr std::string_view kRopeFactors = "rope_freqs.weight";
constexpr std::string_view kLongFactors = "rope_factors_long.weight";
constexpr std::string_view kShortFactors = "rope_factors_short.weight";
constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// The factor of the scaling, 1 where the file names no other.
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

// How far YaRN stretches what is compared, for a factor of its logarithm.
double yarn_magnitude(double scale, double factor) {
  if (scale <= 1.0) return 1.0;
  return 1.0 + factor * (kernels::log2_canonical(scale) * kLn2);
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
    return keys.not_served("rope.scaling.yarn_ext_factor", "is ", blend, "; only 1 is served");
  }
  constexpr std::string_view kMultiplier = "rope.scaling.yarn_log_multiplier";
  TRY(const double multiplier, keys.real(kMultiplier, -1.0, kMultiplierMax, 0.0));
  if (multiplier < 0.0) return keys.bad(kMultiplier, "is below 0");
  spec.yarn = yarn;
  if (spec.latent) {
    if (multiplier == 0.0) {
      return keys.not_served(kMultiplier,
                             "is 0 or missing; files of this family that stretch the "
                             "context have it");
    }
    // Its writers have multiplied it by YaRN's 0.1.
    spec.score_stretch = yarn_magnitude(spec.rope_scale, multiplier);
    return ok_status();
  }
  spec.rope_magnitude =
      yarn_magnitude(spec.rope_scale, 0.1) / yarn_magnitude(spec.rope_scale, 0.1 * multiplier);
  return ok_status();
}

// (rotary_dim / 2) divisors.
Result<std::vector<float>> read_factors(const GgufFile& file, std::string_view name,
                                        const ModelSpec& spec) {
  TRY(const TensorInfo* tensor, require_vector(file, std::string(name), {spec.rotary_dim / 2}));
  std::vector<float> factors(spec.rotary_dim / 2, 1.0F);
  if (spec.shape_only) return factors;  // the tensor is a hole, and nothing is rotated
  const ByteSpan bytes = file.tensor_bytes(*tensor);
  std::memcpy(factors.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double factor = factors[i];
    if (!(factor >= 1.0 / limits::kRopeScale && factor <= limits::kRopeFactor)) {
      return Error::invalid("tensor ", quote(name), ": factor ", i, " is ", factor,
                            "; it must be from 1/65536 to 2^100");
    }
  }
  return factors;
}

// The two ends of YaRN's ramp: pairs up to the first number keep their frequency, pairs from the
// second one on have it divided. The number of turns of a pair within the context falls with its
// index.
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
std::vector<double> powers_of(double base, std::uint32_t width) {
  std::vector<double> powers(width / 2);
  for (std::size_t i = 0; i < powers.size(); ++i) {
    const double exponent = -(2.0 * static_cast<double>(i)) / static_cast<double>(width);
    powers[i] = kernels::pow_canonical(base, exponent);
  }
  return powers;
}

// The power, then the pair's own factor, then the scale: three roundings in this order.
std::vector<double> scaled_frequencies(const ModelSpec& spec, double base) {
  std::vector<double> frequencies = powers_of(base, spec.rotary_dim);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    if (!spec.rope_factors.empty()) frequencies[i] /= static_cast<double>(spec.rope_factors[i]);
    if (!spec.yarn) frequencies[i] /= spec.rope_scale;
  }
  if (!spec.yarn) return frequencies;
  const auto [low, high] = yarn_range(*spec.yarn, base, spec.rotary_dim);
  const double width = std::max(0.001, high - low);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double place = (static_cast<double>(i) - low) / width;
    const double t = std::clamp(place, 0.0, 1.0);
    const double own = frequencies[i];
    frequencies[i] = (own / spec.rope_scale) * t + own * (1.0 - t);
  }
  return frequencies;
}

}  // namespace

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
  } else if (type != "none" && !(type == "longrope" && spec.family->long_factors)) {
    return keys.not_served("rope.scaling.type", "is ", quote(type),
                           "; served are: linear, yarn, none",
                           (spec.family->long_factors ? ", longrope" : ""));
  }
  spec.rope_magnitude *= magnitude;
  if (!spec.latent) return ok_status();
  constexpr double kStretchMax = 512.0;
  spec.score_stretch *= magnitude;
  if (spec.score_stretch <= kStretchMax) return ok_status();
  return keys.bad("rope.scaling.attn_factor", "stretches queries and keys by ", spec.score_stretch,
                  " in all; it must be at most ", kStretchMax);
}

// Of two sets of factors, the long one applies when the context is longer than the original one.
Status read_rope_factors(const Keys& keys, ModelSpec& spec) {
  const GgufFile& file = keys.file();
  const auto has = [&](std::string_view name) { return file.find_tensor(name) != nullptr; };
  if (spec.family->rope_factors && has(kRopeFactors)) {
    TRY(spec.rope_factors, read_factors(file, kRopeFactors, spec));
  }
  if (!spec.family->long_factors || !(has(kLongFactors) || has(kShortFactors))) return ok_status();
  spec.long_factors = true;
  TRY(const std::uint32_t trained,
      keys.integer("rope.scaling.original_context_length", 1, limits::kModelContext, spec.context));
  TRY(spec.rope_factors,
      read_factors(file, spec.context > trained ? kLongFactors : kShortFactors, spec));
  return ok_status();
}

std::vector<double> ModelSpec::rope_frequencies() const {
  return scaled_frequencies(*this, rope_base);
}

std::vector<double> ModelSpec::local_rope_frequencies() const {
  if (family->local_rope == LocalRope::kSame) return scaled_frequencies(*this, local_rope_base);
  return powers_of(local_rope_base, local_head_dim > 0 ? local_head_dim : rotary_dim);
}

double ModelSpec::local_rope_magnitude() const {
  return family->local_rope == LocalRope::kSame ? rope_magnitude : 1.0;
}

float ModelSpec::plain_score_scale() const {
  const bool narrow = layers == family->narrow_score_layers;
  float scale = score_factor;
  if (!(scale > 0.0F)) {
    scale = 1.0F / std::sqrt(static_cast<float>(narrow ? hidden / heads : head_dim));
  }
  if (score_stretch != 1.0) scale *= static_cast<float>(score_stretch * score_stretch);
  return scale;
}

float ModelSpec::score_scale(std::uint32_t position) const {
  const float scale = plain_score_scale();
  if (temperature == 0.0) return scale;
  if (family->unturned_temperature) ++position;
  const double spans = 1.0 + position / temperature_length;
  return scale * static_cast<float>(1.0 + temperature * (kernels::log2_canonical(spans) * kLn2));
}

}  // namespace hearth::model

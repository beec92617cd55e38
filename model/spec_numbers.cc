// The numbers of a model that are computed once: frequencies and scales.
#include <cmath>

#include "kernels/kernels.h"
#include "model/spec.h"

namespace hearth::model {
namespace {

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

// The power, then the pair's own factor, then the linear scale: three roundings in this order.
std::vector<double> ModelSpec::rope_frequencies() const {
  std::vector<double> frequencies = powers_of(rope_base, head_dim);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    if (!rope_factors.empty()) frequencies[i] /= static_cast<double>(rope_factors[i]);
    frequencies[i] /= rope_scale;
  }
  return frequencies;
}

std::vector<double> ModelSpec::local_rope_frequencies() const {
  return powers_of(local_rope_base, head_dim);
}

float ModelSpec::score_scale() const {
  const bool narrow = layers == family->narrow_score_layers;
  return 1.0F / std::sqrt(static_cast<float>(narrow ? hidden / heads : head_dim));
}

float ModelSpec::embedding_scale() const {
  return family->scale_embeddings ? std::sqrt(static_cast<float>(hidden)) : 1.0F;
}

}  // namespace hearth::model

#include "kernels/kernels.h"
#include "model/spec.h"

namespace hearth::model {

// base^(-2i/d), then the pair's own factor, then the linear scale: three roundings in this order.
std::vector<double> ModelSpec::rope_frequencies() const {
  std::vector<double> frequencies(head_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -(2.0 * static_cast<double>(i)) / static_cast<double>(head_dim);
    double frequency = kernels::pow_canonical(rope_base, exponent);
    if (!rope_factors.empty()) frequency /= static_cast<double>(rope_factors[i]);
    frequencies[i] = frequency / rope_scale;
  }
  return frequencies;
}

}  // namespace hearth::model

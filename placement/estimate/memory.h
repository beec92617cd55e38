// Bytes of weights, KV, activations and training, by the formulas of Korthikanti et al., "Reducing
// Activation Recomputation in Large Transformer Models" (2022) and Rajbhandari et al., "ZeRO"
// (2020), and by Hearth's own layout of a KV page (kernels/CANONICAL.md).
#pragma once

#include <cstdint>

#include "placement/estimate/figures.h"

namespace hearth::placement {

double weight_bytes(double parameters, double bits);

// Of one position in all layers. `values`: heads whose K and V are kept, times head_dim.
double kv_bytes_fp16(std::uint32_t layers, double values);
// Of one position in one layer, in 8 bits: a value a byte, a 32-bit scale for each 32 values of a
// key, and one for each value vector.
double kv_bytes_int8(const Shape& shape);

// Adam in mixed precision: FP16 weights and gradients; FP32 weights, momentum and variance.
struct Training {
  double weights = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
  double activations = 0.0;
  double total() const { return weights + gradients + optimizer + activations; }
};
// tokens * batch * hidden * layers * (10 + 24 / tensor_parallel)
double activation_bytes(double tokens, double batch, double hidden, double layers,
                        double tensor_parallel);
Training training_bytes(double parameters, double activations);

// The fewest cards of `each` bytes that hold `bytes`.
double cards_for(double bytes, double each);

}  // namespace hearth::placement

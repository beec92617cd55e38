// The int8 quantiser of one run of values, shared by activations, keys, values and queries.
#pragma once

#include "kernels/elementary.h"

namespace hearth::kernels {

struct QuantScales {
  float scale;
  float inverse;
};

// The scales for the largest magnitude, which is given as a bit pattern.
static inline QuantScales scales_of(std::uint32_t largest) {
  const float maximum = std::bit_cast<float>(largest);
  if (maximum < kTiny) return {0.0F, 0.0F};
  return {maximum / static_cast<float>(kQuantMax), static_cast<float>(kQuantMax) / maximum};
}

struct QuantizedBlock {
  float scale = 0.0F;
  std::int32_t sum = 0;
};

// The largest magnitude as a bit pattern, which has the same order as the values; any non-finite
// value gives at least 0x7F800000.
static inline std::uint32_t largest_magnitude(const float* x, std::uint32_t n) {
  std::uint32_t largest = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU;
    if (bits > largest) largest = bits;
  }
  return largest;
}

// x must be finite.
static inline QuantizedBlock quantize_block(const float* x, std::uint32_t n, std::int8_t* out) {
  const QuantScales scales = scales_of(largest_magnitude(x, n));
  QuantizedBlock block{scales.scale, 0};
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::int32_t q = round_even(x[i] * scales.inverse);
    out[i] = static_cast<std::int8_t>(q);
    block.sum += q;
  }
  return block;
}

}  // namespace hearth::kernels

// The int8 quantiser of one run of values, shared by activations, keys, values and queries.
#pragma once

#include "kernels/elementary.h"

namespace hearth::kernels {

struct QuantizedBlock {
  float maximum = 0.0F;  // of the magnitudes
  float scale = 0.0F;
  std::int32_t sum = 0;
};

// The largest magnitude as a bit pattern, which orders like the value; any non-finite value gives
// at least 0x7F800000.
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
  QuantizedBlock block;
  block.maximum = std::bit_cast<float>(largest_magnitude(x, n));
  const bool zero = block.maximum < kTiny;
  block.scale = zero ? 0.0F : block.maximum / static_cast<float>(kQuantMax);
  const float inverse = zero ? 0.0F : static_cast<float>(kQuantMax) / block.maximum;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::int32_t q = round_even(x[i] * inverse);
    out[i] = static_cast<std::int8_t>(q);
    block.sum += q;
  }
  return block;
}

}  // namespace hearth::kernels

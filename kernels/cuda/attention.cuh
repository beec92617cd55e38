// Definitions that the attention kernels share.
#pragma once

#include <string>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.cuh"
#include "kernels/elementary.h"
#include "kernels/matrix_view.h"

namespace hearth::kernels::cuda {

// An unsigned integer that orders as the number does; above 0 for every finite one.
HEARTH_DEVICE std::uint32_t ordered(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
HEARTH_DEVICE float from_ordered(std::uint32_t bits) {
  return std::bit_cast<float>((bits & 0x80000000U) != 0 ? bits & 0x7FFFFFFFU : ~bits);
}

// A run of 32 values of a query, one a lane, as CANONICAL.md quantises it: gives the word of four
// quants that this lane's four share, and the run's scale times `factor`.
HEARTH_DEVICE std::uint32_t quantize_run(float value, float factor, float& scale) {
  const unsigned lane = thread_index() % 32;
  const float maximum =
      std::bit_cast<float>(warp_max(std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU));
  const bool zero = maximum < kTiny;
  const float inverse = zero ? 0.0F : static_cast<float>(kQuantMax) / maximum;
  const auto byte = static_cast<std::uint32_t>(round_even(value * inverse)) & 255U;
  std::uint32_t word = byte << (8 * (lane % 4));
  word |= shuffle_xor(word, 1);
  word |= shuffle_xor(word, 2);
  scale = (zero ? 0.0F : maximum / static_cast<float>(kQuantMax)) * factor;
  return word;
}

// From a weighted value scale to P, and from a sum of P q_v to the output; `largest` is M.
HEARTH_DEVICE float to_integer_of(float largest) {
  return largest < kTiny ? 0.0F : 65535.0F / largest;
}
HEARTH_DEVICE float output_of(std::int64_t sum, float largest, std::int64_t denominator,
                              bool refused) {
  if (refused || largest < kTiny) return 0.0F;
  const float r = (largest / 65535.0F) / (static_cast<float>(denominator) * 0x1p-24F);
  return static_cast<float>(sum) * r;
}

// P of eight positions from their x: the low halves of four, their high halves, and the same of the
// next four.
HEARTH_DEVICE Words4 weights_of(const Words4 (&x)[2], float to_integer) {
  Words4 result{};
  HEARTH_UNROLL
  for (unsigned j = 0; j < 8; ++j) {
    const float weight = std::bit_cast<float>(x[j / 4].at[j % 4]);
    const auto p = static_cast<std::uint32_t>(round_even(weight * to_integer));
    result.at[j / 4 * 2] |= (p & 255U) << (8 * (j % 4));
    result.at[j / 4 * 2 + 1] |= (p >> 8) << (8 * (j % 4));
  }
  return result;
}

inline Status check_heads(const AttentionRows& rows) {
  const std::uint32_t head_dim = rows.layout.head_dim;
  const std::uint32_t kv_heads = rows.layout.kv_heads;
  REQUIRE(head_dim != 0 && head_dim % kBlock == 0 && head_dim <= kHeadDimMax,
          "heads of " + std::to_string(head_dim) + " values, not a multiple of 32 up to " +
              std::to_string(kHeadDimMax));
  REQUIRE(
      kv_heads != 0 && rows.heads != 0 && rows.heads % kv_heads == 0,
      std::to_string(rows.heads) + " query heads for " + std::to_string(kv_heads) + " kv heads");
  return ok_status();
}

}  // namespace hearth::kernels::cuda

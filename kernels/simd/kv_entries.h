// kv_write over the vectors of the instruction set that the file is compiled for, and what
// attention shares with it. Internal linkage throughout, but for the entry.
#pragma once

#include "kernels/simd/vectors.h"

#if defined(HEARTH_VECTORS)
#include <cstring>

#include "kernels/matrix_view.h"
#include "kernels/preconditions.h"

namespace hearth::kernels {
namespace {

constexpr std::uint32_t kBlocksMax = kHeadDimMax / kBlock;
constexpr std::uint32_t kFlushPages = 65'536 / kPageTokens;  // of sums of byte planes

// The largest magnitude as a bit pattern; n is a multiple of kLanes.
std::uint32_t largest_bits(const float* x, std::uint32_t n) {
  Ints largest = {};
  for (std::uint32_t i = 0; i < n; i += kLanes) {
    largest = max_bits(largest, magnitude_bits(load(x + i)));
  }
  return largest_of(largest);
}

bool in_range(const float* x, std::uint32_t n) {
  return largest_bits(x, n) <= std::bit_cast<std::uint32_t>(kAttentionMax);
}

bool sinks_in_range(const AttentionArgs& args) {
  for (std::uint32_t i = 0; args.sinks != nullptr && i < args.group; ++i) {
    if (!(magnitude_of(args.sinks[i]) <= kAttentionMax)) return false;
  }
  return true;
}

// The sink of a query head, if it has one: raises the largest score, and gives what the sink adds
// to the denominator.
std::int64_t take_sink(const AttentionArgs& args, std::uint32_t head, float& maximum) {
  if (args.sinks == nullptr) return 0;
  const float z = args.sinks[head] * kLog2E;
  maximum = z > maximum ? z : maximum;
  return round_even(hearth::kernels::exp2_of(z - maximum) * 0x1p24F);
}

void write_key(const float* k, std::byte* keys, float* scales, std::uint32_t slot,
               std::uint32_t head_dim) {
  const std::uint32_t half = slot / 16;
  const std::uint32_t lane = slot % 16;
  for (std::uint32_t b = 0; b < head_dim / kBlock; ++b) {
    const Block block = load_block(k + b * kBlock);
    const QuantScales scale = scales_of(largest_of(block));
    std::int8_t quants[kBlock];
    store_quantized(block, scale.inverse, quants);
    scales[(half * (head_dim / kBlock) + b) * 16 + lane] = scale.scale;
    for (std::uint32_t g = 0; g < 8; ++g) {
      std::uint32_t four = 0;
      std::memcpy(&four, quants + g * 4, 4);
      four ^= 0x80808080U;
      std::memcpy(keys + ((half * (head_dim / 4) + b * 8 + g) * 16 + lane) * 4, &four, 4);
    }
  }
}

void write_value(const float* v, std::byte* values, float* scales, std::uint32_t slot,
                 std::uint32_t head_dim) {
  const QuantScales scale = scales_of(largest_bits(v, head_dim));
  std::int8_t quants[kHeadDimMax];
  for (std::uint32_t i = 0; i < head_dim; i += kBlock) {
    store_quantized(load_block(v + i), scale.inverse, quants + i);
  }
  scales[slot] = scale.scale;
  std::byte* out = values + std::size_t{slot / 4} * head_dim * 4 + slot % 4;
  for (std::uint32_t d = 0; d < head_dim; ++d) out[d * 4] = static_cast<std::byte>(quants[d]);
}

}  // namespace

bool vectors::kv_write(const KvLayout& layout, std::byte* page, std::uint32_t slot, const float* k,
                       const float* v) {
  check_kv_slot(layout, page, slot);
  const std::uint32_t head_dim = layout.head_dim;
  const std::uint32_t n = layout.kv_heads * head_dim;
  if (!in_range(k, n) || !in_range(v, n)) return false;
  const PageOffsets offsets = page_offsets(head_dim);
  for (std::uint32_t h = 0; h < layout.kv_heads; ++h) {
    std::byte* base = page + h * offsets.head_bytes;
    const std::size_t at = std::size_t{h} * head_dim;
    write_key(k + at, base, reinterpret_cast<float*>(base + offsets.key_scales), slot, head_dim);
    write_value(v + at, base + offsets.values,
                reinterpret_cast<float*>(base + offsets.value_scales), slot, head_dim);
  }
  return true;
}

}  // namespace hearth::kernels
#endif

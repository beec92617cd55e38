// Packed weights as NEON vectors of 4 rows, one a 32-bit lane, by the layout of matrix_view.h.
// Everything has internal linkage.
#pragma once

#include "kernels/arm/neon.h"
#include "kernels/simd/weight_loads.h"

#if defined(__aarch64__)
namespace hearth::kernels::neon {
namespace {

inline uint8x16_t load_bytes(const std::byte* at) {
  return vld1q_u8(reinterpret_cast<const std::uint8_t*>(at));
}

// Bits of bytes to the left, or to the right where `by` is negative; zeros come in.
inline uint8x16_t shifted(uint8x16_t v, int by) {
  return vshlq_u8(v, vdupq_n_s8(static_cast<std::int8_t>(by)));
}

constexpr bool is_one_of(std::uint8_t bits, std::uint8_t a, std::uint8_t b) {
  return bits == a || bits == b;
}

// The quants of 4 rows of a block; `quants` at the first row's first byte.
template <WeightType type>
class Quants {
 public:
  explicit Quants(const std::byte* quants) : quants_(quants) {
    if constexpr (kPairs) {
      pairs_[0] = load_bytes(quants + kPairsAt);
      pairs_[1] = load_bytes(quants + kPairsAt + 64);
    }
    if constexpr (kSingles) singles_ = load_bytes(quants + kSinglesAt);
  }

  // q of columns 4 * quad .. 4 * quad + 3; quad is known once loops are unrolled.
  int8x16_t quad(int quad) const {
    if constexpr (kBits == 8) {
      return vreinterpretq_s8_u8(veorq_u8(load_bytes(quants_ + quad * 64), vdupq_n_u8(128)));
    }
    uint8x16_t stored = vdupq_n_u8(0);
    if constexpr (kBits >= 4) {
      const uint8x16_t both = load_bytes(quants_ + quad % 4 * 64);
      stored = quad < 4 ? vandq_u8(both, vdupq_n_u8(15)) : vshrq_n_u8(both, 4);
    }
    if constexpr (kPairs) {
      constexpr int kShift = kBits == 6 ? 4 : 0;
      const uint8x16_t moved = shifted(pairs_[quad / 4], kShift - quad % 4 * 2);
      stored = vorrq_u8(stored, vandq_u8(moved, vdupq_n_u8(3 << kShift)));
    }
    if constexpr (kSingles) {
      constexpr int kShift = kBits - 1;
      const uint8x16_t moved = shifted(singles_, kShift - quad);
      stored = vorrq_u8(stored, vandq_u8(moved, vdupq_n_u8(1 << kShift)));
    }
    if constexpr (kLayout.codebook != 0) return vqtbl1q_s8(vld1q_s8(codebook_of(type)), stored);
    return vsubq_s8(vreinterpretq_s8_u8(stored), vdupq_n_s8(kLayout.zero));
  }

 private:
  static constexpr WeightLayout kLayout = layout_of(type);
  static constexpr std::uint8_t kBits = kLayout.bits;
  static constexpr bool kPairs = is_one_of(kBits, 2, 3) || kBits == 6;
  static constexpr bool kSingles = is_one_of(kBits, 3, 5);
  static constexpr std::size_t kPairsAt = kBits >= 4 ? 256 : 0;
  static constexpr std::size_t kSinglesAt = kPairsAt + (kPairs ? 128 : 0);
  const std::byte* quants_;
  uint8x16_t pairs_[2];
  uint8x16_t singles_;
};

inline Ints load_signed(const std::byte* at) {
  return widened(vreinterpret_s8_u8(load_four_bytes(at)));
}

// Scales of a block of a type with one scale a block; `block` at the first row's integer scale.
template <WeightType type>
inline Scales block_scales(const Scales& header, const std::byte* block) {
  constexpr WeightLayout kLayout = layout_of(type);
  Scales s = header;
  if constexpr (kLayout.integer_bytes == 1) {
    s.scale = s.scale * to_floats(load_signed(block));
  } else if constexpr (kLayout.integer_bytes == 2) {
    s.scale = s.scale * to_floats(widened(load_four_bytes(block)));
    s.minimum = s.minimum * to_floats(widened(load_four_bytes(block + kRowGroup)));
  }
  return s;
}

// Integer scales of a type with two of them a block, and their integer minimums.
struct HalfScales {
  Ints scales[2];
  Ints minimums[2];
};

template <WeightType type>
inline HalfScales half_scales(const std::byte* block) {
  HalfScales s;
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const std::byte* at = block + half * kRowGroup;
    if constexpr (layout_of(type).minimum) {
      const Ints both = widened(load_four_bytes(at));
      s.scales[half] = vandq_s32(both, vdupq_n_s32(15));
      s.minimums[half] = vshrq_n_s32(both, 4);
    } else {
      s.scales[half] = load_signed(at);
      s.minimums[half] = vdupq_n_s32(0);
    }
  }
  return s;
}

}  // namespace
}  // namespace hearth::kernels::neon
#endif

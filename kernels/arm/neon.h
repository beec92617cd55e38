// Entries of the NEON tables and what their files share. The vector part is for files of their own,
// as in x86/: everything inline has internal linkage, so that a copy compiled for `sdot` or `smmla`
// never serves code that must run without.
#pragma once

#include "kernels/tables.h"

namespace hearth::kernels::neon {

Entry<decltype(Kernels::matmul)> matmul;
Entry<decltype(Kernels::matmul_partial)> matmul_partial;
Entry<decltype(Kernels::kv_write)> kv_write;
Entry<decltype(Kernels::attention)> attention;

}  // namespace hearth::kernels::neon

// The entries that processors with `sdot`, and those with `smmla` too, have of their own.
namespace hearth::kernels::dotprod {

Entry<decltype(Kernels::matmul)> matmul;
Entry<decltype(Kernels::matmul_partial)> matmul_partial;

}  // namespace hearth::kernels::dotprod

namespace hearth::kernels::i8mm {

Entry<decltype(Kernels::matmul)> matmul;
Entry<decltype(Kernels::matmul_partial)> matmul_partial;

}  // namespace hearth::kernels::i8mm

#if defined(__aarch64__)
#include <arm_neon.h>

#include <cstring>

#include "kernels/quantize_block.h"

namespace hearth::kernels::neon {

using Floats = float32x4_t;
using Ints = int32x4_t;
static constexpr std::uint32_t kLanes = 4;

static inline Floats load(const float* at) { return vld1q_f32(at); }
static inline void store(float* at, Floats v) { vst1q_f32(at, v); }
static inline Floats splat(float x) { return vdupq_n_f32(x); }
static inline Floats fused(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
static inline Floats to_floats(Ints x) { return vcvtq_f32_s32(x); }
static inline Ints to_steps(Floats x) { return vcvtnq_s32_f32(x); }          // halves to even
static inline Floats lesser(Floats a, Floats b) { return vminq_f32(a, b); }  // NaN stays
static inline Floats greater(Floats a, Floats b) { return vmaxq_f32(a, b); }
static inline Ints add_ints(Ints a, Ints b) { return vaddq_s32(a, b); }
static inline float root_of(float x) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }

static inline Ints bits_of(Floats x) { return vreinterpretq_s32_f32(x); }
static inline Floats floats_of(Ints bits) { return vreinterpretq_f32_s32(bits); }

static inline Ints max_bits(Ints a, Ints b) {
  return vreinterpretq_s32_u32(vmaxq_u32(vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b)));
}

// 4 bytes, in the low half of a vector of 8.
static inline uint8x8_t load_four_bytes(const void* at) {
  std::uint32_t four = 0;
  std::memcpy(&four, at, 4);
  return vcreate_u8(four);
}

static inline Ints widened(uint8x8_t bytes) {
  return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
}

static inline Ints widened(int8x8_t bytes) { return vmovl_s16(vget_low_s16(vmovl_s8(bytes))); }

static inline uint16x4_t load_shorts(const void* at) {
  uint16x4_t shorts;
  std::memcpy(&shorts, at, 8);
  return shorts;
}

// fp16 and bf16 numbers.
static inline Floats halves_to_floats(uint16x4_t halves) {
  return vcvt_f32_f16(vreinterpret_f16_u16(halves));
}

static inline Floats load_halves(const std::byte* at) { return halves_to_floats(load_shorts(at)); }

static inline Floats load_brains(const std::byte* at) {
  return vreinterpretq_f32_u32(vshll_n_u16(load_shorts(at), 16));
}

// 2^(e - 126) of bytes e.
static inline Floats load_powers(const std::byte* at) {
  const Ints biased = vaddq_s32(widened(load_four_bytes(at)), vdupq_n_s32(1));
  return floats_of(vshlq_n_s32(biased, 23));
}

static inline Ints magnitude_bits(Floats x) { return bits_of(vabsq_f32(x)); }

static inline std::uint32_t largest_of(Ints v) { return vmaxvq_u32(vreinterpretq_u32_s32(v)); }

static inline Floats exp2_of(Floats x) {
  const uint32x4_t zero = vcltq_f32(x, splat(-126.0F));
  x = lesser(x, splat(127.0F));
  const Ints n = to_steps(x);
  const Floats f = x - to_floats(n);
  Floats p = splat(kExp2Coefficients[0]);
#pragma GCC unroll 6
  for (int i = 1; i < 7; ++i) p = fused(p, f, splat(kExp2Coefficients[i]));
  const Ints bits = vaddq_s32(bits_of(p), vshlq_n_s32(n, 23));
  return floats_of(vbicq_s32(bits, vreinterpretq_s32_u32(zero)));
}

// 32 values.
struct Block {
  Floats parts[8];
};

static inline Block load_block(const float* x) {
  Block block;
#pragma GCC unroll 8
  for (std::uint32_t i = 0; i < 8; ++i) block.parts[i] = load(x + i * kLanes);
  return block;
}

static inline std::uint32_t largest_of(const Block& x) {
  Ints largest = magnitude_bits(x.parts[0]);
#pragma GCC unroll 7
  for (int i = 1; i < 8; ++i) largest = max_bits(largest, magnitude_bits(x.parts[i]));
  return largest_of(largest);
}

// Quantises 32 values; gives the sum of the quantised ones.
static inline std::int32_t store_quantized(const Block& x, float inverse, std::int8_t* out) {
  const Floats factor = splat(inverse);
  Ints sum = vdupq_n_s32(0);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Ints low = to_steps(x.parts[2 * i] * factor);
    const Ints high = to_steps(x.parts[2 * i + 1] * factor);
    sum = vaddq_s32(sum, vaddq_s32(low, high));
    vst1_s8(out + i * 8, vmovn_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high))));
  }
  return vaddvq_s32(sum);
}

// 2^e of 4 rows, and 2^-e.
static inline Floats powers_of_two(const std::int32_t* exponents) {
  return floats_of(vshlq_n_s32(vaddq_s32(vld1q_s32(exponents), vdupq_n_s32(127)), 23));
}

static inline Floats inverse_powers_of_two(const std::int32_t* exponents) {
  return floats_of(vshlq_n_s32(vsubq_s32(vdupq_n_s32(127), vld1q_s32(exponents)), 23));
}

// The first `count` lanes, at most 4.
static inline void store_first(std::uint32_t count, float* at, Floats v) {
  std::memcpy(at, &v, count * sizeof(float));
}

static inline void store_first(std::uint32_t count, std::int32_t* at, Ints v) {
  std::memcpy(at, &v, count * sizeof(std::int32_t));
}

// The 256 lanes as 64 vectors in memory.
static inline float sum_of_squares(const float* x, std::uint32_t n) {
  Floats lanes[64];
  for (Floats& lane : lanes) lane = splat(0.0F);
  for (std::uint32_t i = 0; i < n; i += kNormLanes) {
    const std::uint32_t vectors = n - i < kNormLanes ? (n - i) / kLanes : 64;
    for (std::uint32_t j = 0; j < vectors; ++j) {
      const Floats v = load(x + i + j * kLanes);
      lanes[j] = fused(v, v, lanes[j]);
    }
  }
  for (int half = 32; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lanes[j] = lanes[j] + lanes[j + half];
  }
  const float32x2_t pair = vadd_f32(vget_low_f32(lanes[0]), vget_high_f32(lanes[0]));
  return vget_lane_f32(pair, 0) + vget_lane_f32(pair, 1);
}

struct Pair {
  Floats first;
  Floats second;
};

// Even and odd elements of 8 consecutive ones, and back.
static inline Pair deinterleave(Floats a, Floats b) { return {vuzp1q_f32(a, b), vuzp2q_f32(a, b)}; }

static inline Pair interleave(Floats even, Floats odd) {
  return {vzip1q_f32(even, odd), vzip2q_f32(even, odd)};
}

}  // namespace hearth::kernels::neon
#endif

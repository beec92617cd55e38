// The elementary operations of the canonical function, one value at a time. For the scalar table,
// for device code and for values that are computed once; internal linkage throughout, so that a
// copy compiled for one instruction set never serves another.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/canonical.h"

// Marks functions that host and device share; empty for any compiler but CUDA's.
#ifdef __CUDACC__
#define HEARTH_SHARED __host__ __device__
#else
#define HEARTH_SHARED
#endif

namespace hearth::kernels {

// Round to nearest even, for |x| < 2^31: adding 1.5 * 2^52 leaves the integer in the low bits. On a
// device one instruction does it; doubles are slow there.
HEARTH_SHARED static inline std::int32_t round_even(float x) {
#ifdef __CUDA_ARCH__
  return __float2int_rn(x);
#else
  const double shifted = static_cast<double>(x) + 0x1.8p52;
  return static_cast<std::int32_t>(
      static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(shifted)));
#endif
}

// 2^n, n in [-126, 127].
HEARTH_SHARED static inline float power_of_two(int n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
}

// 2^(e - 128) for the byte e of a scale that is a power of two, e in [0, kPowerMax]. Exact, the
// subnormal ones too.
HEARTH_SHARED static inline float power_scale(std::uint32_t e) {
  return std::bit_cast<float>((e + 1) << 23) * 0.25F;
}

HEARTH_SHARED static inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {  // zero and subnormal: mantissa * 2^-24, exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

HEARTH_SHARED static inline bool half_is_finite(std::uint16_t half) {
  return (half & 0x7C00U) != 0x7C00U;
}

// Round to nearest even; beyond the range an infinity, NaN a quiet NaN.
HEARTH_SHARED static inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00U;
  } else if (magnitude >= 0x477FF000U) {  // 65520 and up round to infinity
    half = 0x7C00U;
  } else if (magnitude < 0x38800000U) {  // below 2^-14: a multiple of 2^-24
    half = static_cast<std::uint32_t>(round_even(std::bit_cast<float>(magnitude) * 0x1p24F));
  } else {
    const std::uint32_t odd = (magnitude >> 13) & 1U;
    half = (magnitude - 0x38000000U + 0xFFFU + odd) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

HEARTH_SHARED static inline bool is_finite(float x) {
  return (std::bit_cast<std::uint32_t>(x) & 0x7F800000U) != 0x7F800000U;
}

HEARTH_SHARED static inline float magnitude_of(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU);
}

// Smallest e with x <= 2^e, for a normal x > 0; for anything smaller some e <= -126.
HEARTH_SHARED static inline std::int32_t smallest_exponent(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<int>(bits >> 23) - 127 + ((bits & 0x7FFFFFU) != 0 ? 1 : 0);
}

// Smallest e >= kExponentMin with maximum <= 2^e; maximum >= 0 and finite.
HEARTH_SHARED static inline std::int32_t row_exponent(float maximum) {
  const std::int32_t exponent = smallest_exponent(maximum);
  return exponent < kExponentMin ? kExponentMin : exponent;
}

// 2^f on [-0.5, 0.5], Horner from the highest power; the last coefficient is 1, so 2^0 is 1.
static constexpr std::array<float, 7> kExp2Coefficients = {
    0x1.41fbbcp-13F, 0x1.5f3e54p-10F, 0x1.3b2d4cp-7F, 0x1.c6aee8p-5F,
    0x1.ebfbdcp-3F,  0x1.62e43p-1F,   0x1p+0F};

HEARTH_SHARED static inline float exp2_of(float x) {
  if (x < -126.0F) return 0.0F;
  if (x > 127.0F) x = 127.0F;
  const std::int32_t n = round_even(x);
  const float f = x - static_cast<float>(n);
  constexpr auto c = kExp2Coefficients;  // device code sees no arrays of the host
  float p = c[0];
  for (int i = 1; i < 7; ++i) p = std::fma(p, f, c[i]);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                              (static_cast<std::uint32_t>(n) << 23));
}

static constexpr float kLog2E = 0x1.715476p+0F;

HEARTH_SHARED static inline float sigmoid_of(float x) {
  return 1.0F / (1.0F + exp2_of(x * -kLog2E));
}

HEARTH_SHARED static inline float silu(float x) { return x / (1.0F + exp2_of(x * -kLog2E)); }

static constexpr float kClampLimit = 7.0F;
static constexpr float kClampSlope = -0x1.3a4cbep+1F;  // -1.702 * log2(e)

// gpt-oss's function of gate and up; NaN if one is not finite.
HEARTH_SHARED static inline float clamped_swiglu(float gate, float up) {
  if (!is_finite(gate) || !is_finite(up)) return std::bit_cast<float>(0x7FC00000U);
  const float g = gate > kClampLimit ? kClampLimit : gate;
  const float u = up > kClampLimit ? kClampLimit : up < -kClampLimit ? -kClampLimit : up;
  return (g / (1.0F + exp2_of(g * kClampSlope))) * (u + 1.0F);
}

// The tanh form: 2 * sqrt(2 / pi) * log2(e), negated, and that times 0.044715.
static constexpr float kGeluLinear = -0x1.26aec2p+1F;
static constexpr float kGeluCubic = -0x1.a5a7dp-4F;

HEARTH_SHARED static inline float gelu(float x) {
  const float z = std::fma(kGeluCubic, x * x, kGeluLinear);
  return x / (1.0F + exp2_of(x * z));
}

// cap * tanh(x / cap), `rate` being softcap_rate(cap).
HEARTH_SHARED static inline float softcap_rate(float cap) { return (2.0F * kLog2E) / cap; }

HEARTH_SHARED static inline float softcap_of(float x, float cap, float rate) {
  return cap - (cap + cap) / (1.0F + exp2_of(x * rate));
}

}  // namespace hearth::kernels

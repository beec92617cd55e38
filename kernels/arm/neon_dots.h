// Dot products of quants of 4 rows with up to 4 tokens, in three versions: with smmla where the
// file is compiled for i8mm, with sdot where it is compiled for that, else with products of 16
// bits. There no sum saturates: two products of bytes are at most 2 * 128 * 127 < 2^15. Everything
// has internal linkage.
#pragma once

#include "kernels/arm/neon_weights.h"

#if defined(__aarch64__)
namespace hearth::kernels::neon {
namespace {

constexpr std::uint32_t kTokens = 4;  // of one register tile

// One block of up to 4 tokens.
template <std::uint32_t tokens>
struct TokenBlock {
  TokenBlock(const QuantizedRows& rows, std::uint32_t t, std::uint32_t blocks, std::uint32_t b)
      : x(rows) {
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) at[i] = std::size_t{t + i} * blocks + b;
  }
  const std::int8_t* values(std::uint32_t i) const { return x.values + at[i] * kBlock; }

  const QuantizedRows& x;
  std::size_t at[tokens];
};

inline int8x16_t broadcast_four(const std::int8_t* at) {
  std::int32_t four = 0;
  std::memcpy(&four, at, 4);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

// dot += the 4 columns of each row times 4 values.
inline Ints add_quad(Ints dot, int8x16_t weights, int8x16_t four) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(dot, weights, four);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(four));
  return vpadalq_s16(dot, vpaddq_s16(low, vmull_high_s8(weights, four)));
#endif
}

// dots[i] += the sum over quads [begin, end), an even number, of quants times token i's values.
template <WeightType type, std::uint32_t tokens>
inline void add_quads(const Quants<type>& quants, const TokenBlock<tokens>& x, int begin, int end,
                      Ints (&dots)[tokens]) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  // Of each two tokens: rows 0 and 1 by the tokens, then rows 2 and 3.
  constexpr std::uint32_t kPairs = tokens / 2;
  Ints low[kPairs + 1];
  Ints high[kPairs + 1];
#pragma GCC unroll 2
  for (std::uint32_t p = 0; p < kPairs; ++p) low[p] = high[p] = vdupq_n_s32(0);
#pragma GCC unroll 4
  for (int quad = begin; quad < end; quad += 2) {
    const Ints a = vreinterpretq_s32_s8(quants.quad(quad));
    const Ints b = vreinterpretq_s32_s8(quants.quad(quad + 1));
    const int8x16_t upper = vreinterpretq_s8_s32(vzip1q_s32(a, b));
    const int8x16_t lower = vreinterpretq_s8_s32(vzip2q_s32(a, b));
#pragma GCC unroll 2
    for (std::uint32_t p = 0; p < kPairs; ++p) {
      const int8x16_t both =
          vcombine_s8(vld1_s8(x.values(2 * p) + quad * 4), vld1_s8(x.values(2 * p + 1) + quad * 4));
      low[p] = vmmlaq_s32(low[p], upper, both);
      high[p] = vmmlaq_s32(high[p], lower, both);
    }
    if constexpr (tokens % 2 != 0) {
      const std::int8_t* values = x.values(tokens - 1) + quad * 4;
      Ints& dot = dots[tokens - 1];
      dot = add_quad(dot, vreinterpretq_s8_s32(a), broadcast_four(values));
      dot = add_quad(dot, vreinterpretq_s8_s32(b), broadcast_four(values + 4));
    }
  }
#pragma GCC unroll 2
  for (std::uint32_t p = 0; p < kPairs; ++p) {
    dots[2 * p] = vaddq_s32(dots[2 * p], vuzp1q_s32(low[p], high[p]));
    dots[2 * p + 1] = vaddq_s32(dots[2 * p + 1], vuzp2q_s32(low[p], high[p]));
  }
#else
#pragma GCC unroll 8
  for (int quad = begin; quad < end; ++quad) {
    const int8x16_t weights = quants.quad(quad);
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) {
      dots[i] = add_quad(dots[i], weights, broadcast_four(x.values(i) + quad * 4));
    }
  }
#endif
}

}  // namespace
}  // namespace hearth::kernels::neon
#endif

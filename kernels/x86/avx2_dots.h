// Dot products of one block of 8 rows with up to 4 tokens, in two versions: with vpdpbusd where the
// file is compiled for AVX-VNNI, else with maddubs. There no 16-bit sum saturates: stored quants
// are unsigned and added up only as often as their bits allow; Q8_0 and wide codebook values are
// multiplied by magnitude and sign. Only for files compiled for AVX2; everything has internal
// linkage.
#pragma once

#include "kernels/matrix_view.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/avx2_weights.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
namespace hearth::kernels::avx2 {
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

// Sums of each token's values over columns 0..15 and 16..31, in the low and the high half.
template <std::uint32_t tokens>
inline void half_sums(const TokenBlock<tokens>& x, std::int32_t (&sums)[kTokens]) {
  __m256i pairs[kTokens];
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    const std::uint32_t token = i < tokens ? i : tokens - 1;
    pairs[i] = _mm256_maddubs_epi16(_mm256_set1_epi8(1), load_256(x.values(token)));
  }
  const __m256i quarters = _mm256_hadd_epi16(_mm256_hadd_epi16(pairs[0], pairs[1]),
                                             _mm256_hadd_epi16(pairs[2], pairs[3]));
  const __m256i halves = add_pairs(quarters);  // columns 0..15 in the low 4 lanes, tokens in order
  const __m128i high = _mm_slli_epi32(_mm256_extracti128_si256(halves, 1), 16);
  const __m128i both = _mm_blend_epi16(_mm256_castsi256_si128(halves), high, 0xAA);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), both);
}

// Emits no instruction. It makes the compiler finish `v` here; otherwise the compiler would hoist
// the products of a whole block and spill them.
inline void pin(__m256i& v) { asm("" : "+x"(v)); }

// Below, dots[i] becomes the sum over the block of quants times token i's values, where each quant
// is too large by dot_zero; in two-scale types each half is multiplied by factors[half], an int16
// twice in each lane.
#if defined(__AVXVNNI__)

constexpr int dot_zero(const WeightLayout& layout) {
  return layout.codebook != 0 ? layout.codebook : layout.zero;
}

// Quads [begin, end) as the unsigned operand.
template <WeightType type, std::uint32_t tokens>
inline void add_quads(const StoredQuants<type>& quants, const TokenBlock<tokens>& x, int begin,
                      int end, __m256i (&dots)[tokens]) {
#pragma GCC unroll 8
  for (int quad = begin; quad < end; ++quad) {
    const __m256i weights = quants.biased_quad(quad);
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) {
      dots[i] = _mm256_dpbusd_avx_epi32(dots[i], weights, broadcast_four(x.values(i) + quad * 4));
      pin(dots[i]);
    }
  }
}

template <WeightType type, std::uint32_t tokens>
inline void one_scale_dots(const StoredQuants<type>& quants, const TokenBlock<tokens>& x,
                           __m256i (&dots)[tokens]) {
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) dots[i] = _mm256_setzero_si256();
  add_quads<type, tokens>(quants, x, 0, 8, dots);
}

template <WeightType type, std::uint32_t tokens>
inline void two_scale_dots(const StoredQuants<type>& quants, const TokenBlock<tokens>& x,
                           const __m256i (&factors)[2], __m256i (&dots)[tokens]) {
  __m256i halves[2][tokens];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) halves[half][i] = _mm256_setzero_si256();
    add_quads<type, tokens>(quants, x, half * 4, half * 4 + 4, halves[half]);
  }
  const __m256i first = _mm256_srai_epi32(factors[0], 16);
  const __m256i second = _mm256_srai_epi32(factors[1], 16);
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) {
    dots[i] = _mm256_add_epi32(_mm256_mullo_epi32(halves[0][i], first),
                               _mm256_mullo_epi32(halves[1][i], second));
  }
}

#else

constexpr bool has_signed_quads(const WeightLayout& layout) {
  return layout.codebook == 128 || layout.bits == 8;
}

constexpr int dot_zero(const WeightLayout& layout) {
  if (has_signed_quads(layout)) return 0;
  return layout.codebook != 0 ? layout.codebook : layout.zero;
}

// The largest stored quant, or the largest biased codebook value.
constexpr int largest_quant(const WeightLayout& layout) {
  return layout.codebook != 0 ? 2 * layout.codebook - 1 : (1 << layout.bits) - 1;
}

// 16-bit sums of 2 * pairs products of a stored quant and an int8 must stay below 2^15.
constexpr int quads_without_saturation(int largest) { return 32767 / (2 * largest * 127); }

template <WeightType type, std::uint32_t tokens>
inline void unsigned_dots(const StoredQuants<type>& quants, const TokenBlock<tokens>& x,
                          const __m256i (&factors)[2], __m256i (&dots)[tokens]) {
  constexpr bool kTwo = layout_of(type).form == BlockForm::kTwoScales;
  constexpr int kQuads = quads_without_saturation(largest_quant(layout_of(type)));
  constexpr int kRoom = kQuads > 1 ? kQuads / 2 : 1;
  constexpr int kMost = kTwo ? 2 : 4;  // a half, or the block
  constexpr int kRun = kRoom < kMost ? kRoom : kMost;
  static_assert(4 % kRun == 0);
  __m256i run[tokens];
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step) {
    const int a = kTwo ? 2 * step : step;
    const int b = kTwo ? 2 * step + 1 : step + 4;
    const __m256i weights_a = quants.biased_quad(a);
    const __m256i weights_b = quants.biased_quad(b);
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) {
      const std::int8_t* values = x.values(i);
      __m256i sum = _mm256_maddubs_epi16(weights_a, broadcast_four(values + a * 4));
      const __m256i other = _mm256_maddubs_epi16(weights_b, broadcast_four(values + b * 4));
      if constexpr (kQuads == 1) {  // two products fill an int16
        sum = _mm256_add_epi32(_mm256_madd_epi16(sum, factors[step / 2]),
                               _mm256_madd_epi16(other, factors[step / 2]));
        dots[i] = step == 0 ? sum : _mm256_add_epi32(dots[i], sum);
        pin(dots[i]);
        continue;
      }
      sum = _mm256_add_epi16(sum, other);
      run[i] = step % kRun == 0 ? sum : _mm256_add_epi16(run[i], sum);
      pin(run[i]);
      if ((step + 1) % kRun != 0) continue;
      const __m256i part = _mm256_madd_epi16(run[i], factors[step / 2]);
      dots[i] = step < kRun ? part : _mm256_add_epi32(dots[i], part);
    }
  }
}

template <WeightType type, std::uint32_t tokens>
inline void signed_dots(const StoredQuants<type>& quants, const TokenBlock<tokens>& x,
                        __m256i (&dots)[tokens]) {
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) dots[i] = _mm256_setzero_si256();
#pragma GCC unroll 8
  for (int quad = 0; quad < 8; ++quad) {
    const __m256i weights = quants.signed_quad(quad);
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) {
      const __m256i four = broadcast_four(x.values(i) + quad * 4);
      dots[i] = _mm256_add_epi32(dots[i], add_pairs(signed_pairs(weights, four)));
      pin(dots[i]);
    }
  }
}

template <WeightType type, std::uint32_t tokens>
inline void one_scale_dots(const StoredQuants<type>& quants, const TokenBlock<tokens>& x,
                           __m256i (&dots)[tokens]) {
  if constexpr (has_signed_quads(layout_of(type))) {
    signed_dots<type, tokens>(quants, x, dots);
  } else {
    const __m256i ones = _mm256_set1_epi16(1);
    unsigned_dots<type, tokens>(quants, x, {ones, ones}, dots);
  }
}

template <WeightType type, std::uint32_t tokens>
inline void two_scale_dots(const StoredQuants<type>& quants, const TokenBlock<tokens>& x,
                           const __m256i (&factors)[2], __m256i (&dots)[tokens]) {
  unsigned_dots<type, tokens>(quants, x, factors, dots);
}

#endif

}  // namespace
}  // namespace hearth::kernels::avx2
#endif

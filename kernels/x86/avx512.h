// Entries of the AVX-512 table (F, BW, DQ, VL, VNNI) and what its files share. The vector part is
// for files compiled for that instruction set; everything inline has internal linkage, so that no
// copy of it can serve code that must run without AVX-512.
#pragma once

#include "kernels/kernels.h"

namespace hearth::kernels::avx512 {

void matmul(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
            std::uint32_t group_end, float* out, std::size_t out_stride);
void matmul_partial(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
                    std::uint32_t group_end, std::uint32_t block_begin, std::uint32_t block_end,
                    std::int32_t* out, std::size_t out_stride);
bool kv_write(const KvLayout& layout, std::byte* page, std::uint32_t slot, const float* k,
              const float* v);
bool attention(const AttentionArgs& args);

}  // namespace hearth::kernels::avx512

#if defined(__AVX512VNNI__)
#include <immintrin.h>

#include "kernels/elementary.h"

namespace hearth::kernels::avx512 {

static inline __m512i magnitude_bits(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF));
}

// Lanes j and j + h are joined for h = 8, 4, 2, 1, as CANONICAL.md's tree has it.
static inline float sum_tree(__m512 v) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

static inline __m512 exp2_of(__m512 x) {
  const __mmask16 zero = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0F), _CMP_LT_OQ);
  x = _mm512_min_ps(x, _mm512_set1_ps(127.0F));
  const __m512i n = _mm512_cvtps_epi32(x);
  const __m512 f = _mm512_sub_ps(x, _mm512_cvtepi32_ps(n));
  __m512 p = _mm512_set1_ps(kExp2Coefficients[0]);
#pragma GCC unroll 6
  for (int i = 1; i < 7; ++i) p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2Coefficients[i]));
  const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(n, 23));
  return _mm512_castsi512_ps(_mm512_maskz_mov_epi32(static_cast<__mmask16>(~zero), bits));
}

struct BlockScales {
  float scale;
  float inverse;
};

static inline BlockScales scales_of(std::uint32_t largest) {
  const float maximum = std::bit_cast<float>(largest);
  if (maximum < kTiny) return {0.0F, 0.0F};
  return {maximum / static_cast<float>(kQuantMax), static_cast<float>(kQuantMax) / maximum};
}

static inline std::uint32_t largest_of(__m512 a, __m512 b) {
  return _mm512_reduce_max_epu32(_mm512_max_epu32(magnitude_bits(a), magnitude_bits(b)));
}

// Quantises 32 values; gives the sum of the quantised ones.
static inline std::int32_t store_quantized(__m512 a, __m512 b, float inverse, std::int8_t* out) {
  const __m512 factor = _mm512_set1_ps(inverse);
  const __m512i qa = _mm512_cvtps_epi32(_mm512_mul_ps(a, factor));
  const __m512i qb = _mm512_cvtps_epi32(_mm512_mul_ps(b, factor));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(qa));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16), _mm512_cvtepi32_epi8(qb));
  return _mm512_reduce_add_epi32(_mm512_add_epi32(qa, qb));
}

}  // namespace hearth::kernels::avx512
#endif

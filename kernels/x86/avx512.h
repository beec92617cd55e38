// Entries of the AVX-512 table (F, BW, DQ, VL, VNNI) and what its files share. The vector part is
// for files compiled for that instruction set; everything inline has internal linkage, so that no
// copy of it can serve code that must run without AVX-512.
#pragma once

#include "kernels/tables.h"

namespace hearth::kernels::avx512 {

Entry<decltype(Kernels::matmul)> matmul;
Entry<decltype(Kernels::matmul_partial)> matmul_partial;
Entry<decltype(Kernels::kv_write)> kv_write;
Entry<decltype(Kernels::attention)> attention;

}  // namespace hearth::kernels::avx512

#if defined(__AVX512VNNI__)
#include <immintrin.h>

#include "kernels/quantize_block.h"

namespace hearth::kernels::avx512 {

using Floats = __m512;
using Ints = __m512i;
static constexpr std::uint32_t kLanes = 16;

static inline Floats load(const float* at) { return _mm512_loadu_ps(at); }
static inline void store(float* at, Floats v) { _mm512_storeu_ps(at, v); }
static inline Floats splat(float x) { return _mm512_set1_ps(x); }
static inline Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
static inline Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
static inline Ints to_steps(Floats x) { return _mm512_cvtps_epi32(x); }
static inline Floats lesser(Floats a, Floats b) { return _mm512_min_ps(a, b); }  // NaN of b stays
static inline Floats greater(Floats a, Floats b) { return _mm512_max_ps(a, b); }
static inline Ints add_ints(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
static inline Ints max_bits(Ints a, Ints b) { return _mm512_max_epu32(a, b); }
static inline float root_of(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// fp16 and bf16 numbers.
static inline Floats load_halves(const std::byte* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

// 2^(e - 126) of bytes e.
static inline Floats load_powers(const std::byte* at) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  const __m512i biased = _mm512_add_epi32(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(1));
  return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
}

static inline Floats load_brains(const std::byte* at) {
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
}

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

// 32 values.
struct Block {
  __m512 parts[2];
};

static inline Block load_block(const float* x) { return {{load(x), load(x + 16)}}; }

static inline std::uint32_t largest_of(Ints v) { return _mm512_reduce_max_epu32(v); }

static inline std::uint32_t largest_of(const Block& x) {
  return largest_of(max_bits(magnitude_bits(x.parts[0]), magnitude_bits(x.parts[1])));
}

// Quantises 32 values; gives the sum of the quantised ones.
static inline std::int32_t store_quantized(const Block& x, float inverse, std::int8_t* out) {
  const __m512 factor = _mm512_set1_ps(inverse);
  const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(x.parts[0], factor));
  const __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(x.parts[1], factor));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(a));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16), _mm512_cvtepi32_epi8(b));
  return _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
}

// 2^e of 16 rows, and 2^-e.
static inline Floats powers_of_two(const std::int32_t* exponents) {
  const __m512i biased = _mm512_add_epi32(_mm512_loadu_si512(exponents), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
}

static inline Floats inverse_powers_of_two(const std::int32_t* exponents) {
  const __m512i biased = _mm512_sub_epi32(_mm512_set1_epi32(127), _mm512_loadu_si512(exponents));
  return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
}

// The first `count` lanes.
static inline __mmask16 lanes_below(std::uint32_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFFU : (1U << count) - 1U);
}

static inline void store_first(std::uint32_t count, float* at, Floats v) {
  _mm512_mask_storeu_ps(at, lanes_below(count), v);
}

static inline void store_first(std::uint32_t count, std::int32_t* at, Ints v) {
  _mm512_mask_storeu_epi32(at, lanes_below(count), v);
}

static inline float sum_of_squares(const float* x, std::uint32_t n) {
  __m512 lanes[16];
#pragma GCC unroll 16
  for (int j = 0; j < 16; ++j) lanes[j] = _mm512_setzero_ps();
  std::uint32_t i = 0;
  for (; i + kNormLanes <= n; i += kNormLanes) {
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) {
      const __m512 v = _mm512_loadu_ps(x + i + j * 16);
      lanes[j] = _mm512_fmadd_ps(v, v, lanes[j]);
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < 16; ++j) {
    if (i + j * 16 < n) {
      const __m512 v = _mm512_loadu_ps(x + i + j * 16);
      lanes[j] = _mm512_fmadd_ps(v, v, lanes[j]);
    }
  }
#pragma GCC unroll 4
  for (int half = 8; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int j = 0; j < half; ++j) lanes[j] = _mm512_add_ps(lanes[j], lanes[j + half]);
  }
  return sum_tree(lanes[0]);
}

struct Pair {
  __m512 first;
  __m512 second;
};

// Even and odd elements of 32 consecutive ones, and back.
static inline Pair deinterleave(__m512 a, __m512 b) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return {_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b)};
}

static inline Pair interleave(__m512 even, __m512 odd) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return {_mm512_permutex2var_ps(even, low, odd), _mm512_permutex2var_ps(even, high, odd)};
}

}  // namespace hearth::kernels::avx512
#endif

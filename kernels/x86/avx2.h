// Entries of the AVX2 and AVX-VNNI tables (with FMA and F16C) and what its files share. The vector
// part is for files compiled for that instruction set; everything inline has internal linkage, so
// that no copy of it can serve code that must run without AVX2.
#pragma once

#include "kernels/tables.h"

namespace hearth::kernels::avx2 {

Entry<decltype(Kernels::matmul)> matmul;
Entry<decltype(Kernels::matmul_partial)> matmul_partial;
Entry<decltype(Kernels::kv_write)> kv_write;
Entry<decltype(Kernels::attention)> attention;

}  // namespace hearth::kernels::avx2

// The entries that AVX-VNNI has of its own.
namespace hearth::kernels::avxvnni {

Entry<decltype(Kernels::matmul)> matmul;
Entry<decltype(Kernels::matmul_partial)> matmul_partial;

}  // namespace hearth::kernels::avxvnni

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

#include <cstring>

#include "kernels/quantize_block.h"

namespace hearth::kernels::avx2 {

using Floats = __m256;
using Ints = __m256i;
static constexpr std::uint32_t kLanes = 8;

static inline Floats load(const float* at) { return _mm256_loadu_ps(at); }
static inline void store(float* at, Floats v) { _mm256_storeu_ps(at, v); }
static inline Floats splat(float x) { return _mm256_set1_ps(x); }
static inline Floats fused(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
static inline Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
static inline Ints to_steps(Floats x) { return _mm256_cvtps_epi32(x); }
static inline Floats lesser(Floats a, Floats b) { return _mm256_min_ps(a, b); }  // NaN of b stays
static inline Floats greater(Floats a, Floats b) { return _mm256_max_ps(a, b); }
static inline Ints add_ints(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
static inline Ints max_bits(Ints a, Ints b) { return _mm256_max_epu32(a, b); }
static inline float root_of(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

static inline __m256i load_256(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}

static inline __m256i broadcast_four(const void* at) {
  std::int32_t four = 0;
  std::memcpy(&four, at, 4);
  return _mm256_set1_epi32(four);
}

// fp16 and bf16 numbers.
static inline Floats load_halves(const std::byte* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

// 2^(e - 126) of bytes e.
static inline Floats load_powers(const std::byte* at) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
  const __m256i biased = _mm256_add_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_set1_epi32(1));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

static inline Floats load_brains(const std::byte* at) {
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16));
}

static inline __m256i magnitude_bits(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFFFF));
}

static inline std::uint32_t largest_of(__m256i v) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(m));
}

static inline std::int32_t sum_of(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
  return _mm_cvtsi128_si32(s);
}

// Lanes j and j + h are joined for h = 4, 2, 1, the end of CANONICAL.md's tree.
static inline float sum_tree(__m256 v) {
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

static inline __m256 exp2_of(__m256 x) {
  const __m256 zero = _mm256_cmp_ps(x, _mm256_set1_ps(-126.0F), _CMP_LT_OQ);
  x = _mm256_min_ps(x, _mm256_set1_ps(127.0F));
  const __m256i n = _mm256_cvtps_epi32(x);
  const __m256 f = _mm256_sub_ps(x, _mm256_cvtepi32_ps(n));
  __m256 p = _mm256_set1_ps(kExp2Coefficients[0]);
#pragma GCC unroll 6
  for (int i = 1; i < 7; ++i) p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(kExp2Coefficients[i]));
  const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(n, 23));
  return _mm256_andnot_ps(zero, _mm256_castsi256_ps(bits));
}

// 32 values.
struct Block {
  __m256 parts[4];
};

static inline Block load_block(const float* x) {
  return {{_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8), _mm256_loadu_ps(x + 16),
           _mm256_loadu_ps(x + 24)}};
}

static inline std::uint32_t largest_of(const Block& x) {
  const __m256i low = _mm256_max_epu32(magnitude_bits(x.parts[0]), magnitude_bits(x.parts[1]));
  const __m256i high = _mm256_max_epu32(magnitude_bits(x.parts[2]), magnitude_bits(x.parts[3]));
  return largest_of(_mm256_max_epu32(low, high));
}

// Quantises 32 values; gives the sum of the quantised ones.
static inline std::int32_t store_quantized(const Block& x, float inverse, std::int8_t* out) {
  const __m256 factor = _mm256_set1_ps(inverse);
  __m256i q[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(x.parts[i], factor));
  }
  // Both packs work in 128-bit halves; the permutation puts the groups of four back in order.
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(bytes, order));
  return sum_of(_mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3])));
}

// 2^e of 8 rows, and 2^-e.
static inline Floats powers_of_two(const std::int32_t* exponents) {
  const __m256i biased = _mm256_add_epi32(load_256(exponents), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

static inline Floats inverse_powers_of_two(const std::int32_t* exponents) {
  const __m256i biased = _mm256_sub_epi32(_mm256_set1_epi32(127), load_256(exponents));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}

// The first `count` lanes.
static inline __m256i lanes_below(std::uint32_t count) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
}

static inline void store_first(std::uint32_t count, float* at, Floats v) {
  _mm256_maskstore_ps(at, lanes_below(count), v);
}

static inline void store_first(std::uint32_t count, std::int32_t* at, Ints v) {
  _mm256_maskstore_epi32(at, lanes_below(count), v);
}

// The 256 lanes as 32 vectors in memory.
static inline float sum_of_squares(const float* x, std::uint32_t n) {
  __m256 lanes[32];
  for (__m256& lane : lanes) lane = _mm256_setzero_ps();
  for (std::uint32_t i = 0; i < n; i += kNormLanes) {
    const std::uint32_t vectors = n - i < kNormLanes ? (n - i) / 8 : 32;
    for (std::uint32_t j = 0; j < vectors; ++j) {
      const __m256 v = _mm256_loadu_ps(x + i + j * 8);
      lanes[j] = _mm256_fmadd_ps(v, v, lanes[j]);
    }
  }
  for (int half = 16; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lanes[j] = _mm256_add_ps(lanes[j], lanes[j + half]);
  }
  return sum_tree(lanes[0]);
}

struct Pair {
  __m256 first;
  __m256 second;
};

// Even and odd elements of 16 consecutive ones, and back.
static inline Pair deinterleave(__m256 a, __m256 b) {
  const __m256 low = _mm256_permute2f128_ps(a, b, 0x20);
  const __m256 high = _mm256_permute2f128_ps(a, b, 0x31);
  return {_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xDD)};
}

static inline Pair interleave(__m256 even, __m256 odd) {
  const __m256 low = _mm256_unpacklo_ps(even, odd);
  const __m256 high = _mm256_unpackhi_ps(even, odd);
  return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}

// Exact dot products of 4 signed bytes a lane with 4 bytes of `values`, as pairs of 16-bit sums.
// |a| <= 128 is unsigned and |values| <= 127, so a pair is at most 2 * 128 * 127 < 2^15.
static inline __m256i signed_pairs(__m256i a, __m256i values) {
  return _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(values, a));
}

static inline __m256i add_pairs(__m256i pairs) {
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

}  // namespace hearth::kernels::avx2
#endif

// Packed weights to vectors: one block of 16 rows x 32 columns of any quantised type as unsigned
// bytes, the operand that vpdpbusd wants, and its scales. For files compiled for AVX-512;
// everything inline has internal linkage, as in avx512.h.
#pragma once

#if defined(__AVX512VNNI__)
#include "kernels/simd/weight_loads.h"

namespace hearth::kernels::avx512 {

template <WeightType type>
struct Weights {
  __m512 scale;         // D * G
  __m512 minimum;       // M * G, where the type has M
  __m512i scales[2];    // S, of the types with two scales
  __m512i half_factor;  // of those types, int16 pairs that half sums are multiplied by:
                        // (T[0], T[1]) of Q2_K, else -quant_zero() * (S[0], S[1])
  __m512i quants[8];    // quants[g]: columns 4g..4g+3 of 16 rows, stored or biased codebook quants
};

// The offset to subtract from every column of Weights::quants.
constexpr int quant_zero(const WeightLayout& layout) {
  return layout.codebook != 0 ? layout.codebook : layout.zero;
}

static inline __m128i load_bytes(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

// Bits move by `left` within bytes, or to the right where it is negative. What crosses from a
// neighbouring byte lands outside the bits that the caller keeps.
template <int left>
static inline __m512i shifted(__m512i v) {
  if constexpr (left > 0) return _mm512_slli_epi16(v, left);
  if constexpr (left < 0) return _mm512_srli_epi16(v, -left);
  return v;
}

// low | (high & mask)
static inline __m512i join_bits(__m512i low, __m512i high, int mask) {
  return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(static_cast<char>(mask)), 0xF8);
}

// The planes of one block; those that a type lacks are not read.
template <int bits>
struct Planes {
  static constexpr bool kNibbles = bits == 4 || bits == 5 || bits == 6;
  static constexpr bool kPairs = bits == 2 || bits == 3 || bits == 6;
  static constexpr bool kSingles = bits == 3 || bits == 5;

  explicit Planes(const std::byte* at) {
    if constexpr (kNibbles) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) nibbles[i] = _mm512_loadu_si512(at + i * 64);
      at += 256;
    }
    if constexpr (kPairs) {
      pairs[0] = _mm512_loadu_si512(at);
      pairs[1] = _mm512_loadu_si512(at + 64);
      at += 128;
    }
    if constexpr (kSingles) singles = _mm512_loadu_si512(at);
  }

  template <int quad>
  __m512i stored() const {
    __m512i out;
    if constexpr (kNibbles) {
      out = _mm512_and_si512(shifted<quad / 4 * -4>(nibbles[quad % 4]), _mm512_set1_epi8(15));
      if constexpr (kPairs) out = join_bits(out, shifted<4 - quad % 4 * 2>(pairs[quad / 4]), 0x30);
      if constexpr (kSingles) out = join_bits(out, shifted<4 - quad>(singles), 0x10);
    } else {
      out = _mm512_and_si512(shifted<quad % 4 * -2>(pairs[quad / 4]), _mm512_set1_epi8(3));
      if constexpr (kSingles) out = join_bits(out, shifted<2 - quad>(singles), 4);
    }
    return out;
  }

  __m512i nibbles[4];
  __m512i pairs[2];
  __m512i singles;
};

template <WeightType type>
static inline __m512i codebook_values(__m512i indices) {
  alignas(16) std::uint8_t table[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    table[i] = static_cast<std::uint8_t>(codebook_of(type)[i] + layout_of(type).codebook);
  }
  const __m128i values = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), indices);
}

template <WeightType type>
static inline void load_quants(const std::byte* at, __m512i (&out)[8]) {
  constexpr WeightLayout kLayout = layout_of(type);
  if constexpr (kLayout.bits == 8) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) out[g] = _mm512_loadu_si512(at + g * 64);
  } else {
    const Planes<kLayout.bits> planes(at);
    out[0] = planes.template stored<0>();
    out[1] = planes.template stored<1>();
    out[2] = planes.template stored<2>();
    out[3] = planes.template stored<3>();
    out[4] = planes.template stored<4>();
    out[5] = planes.template stored<5>();
    out[6] = planes.template stored<6>();
    out[7] = planes.template stored<7>();
    if constexpr (kLayout.codebook != 0) {
#pragma GCC unroll 8
      for (int g = 0; g < 8; ++g) out[g] = codebook_values<type>(out[g]);
    }
  }
}

// Two int32 of magnitude below 2^15 as a pair of int16.
static inline __m512i pair_of(__m512i low, __m512i high) {
  return _mm512_mask_blend_epi16(0xAAAAAAAAU, low, _mm512_slli_epi32(high, 16));
}

template <WeightType type>
static inline void load_two_scales(const std::byte* at, Weights<type>& out) {
  constexpr WeightLayout kLayout = layout_of(type);
  if constexpr (kLayout.minimum) {
    const __m512i first = _mm512_cvtepu8_epi32(load_bytes(at));
    const __m512i second = _mm512_cvtepu8_epi32(load_bytes(at + kRowGroup));
    const __m512i low = _mm512_set1_epi32(15);
    out.scales[0] = _mm512_and_si512(first, low);
    out.scales[1] = _mm512_and_si512(second, low);
    out.half_factor = pair_of(_mm512_srli_epi32(first, 4), _mm512_srli_epi32(second, 4));
  } else {
    out.scales[0] = _mm512_cvtepi8_epi32(load_bytes(at));
    out.scales[1] = _mm512_cvtepi8_epi32(load_bytes(at + kRowGroup));
    out.half_factor = _mm512_mullo_epi16(pair_of(out.scales[0], out.scales[1]),
                                         _mm512_set1_epi16(-quant_zero(kLayout)));
  }
}

// A block whose super-block has the scales `shared`.
template <WeightType type>
static inline Weights<type> load_weights(const std::byte* block, const Scales& shared) {
  constexpr WeightLayout kLayout = layout_of(type);
  Weights<type> w;
  w.scale = shared.scale;
  if constexpr (kLayout.minimum) w.minimum = shared.minimum;
  if constexpr (kLayout.form == BlockForm::kTwoScales) {
    load_two_scales<type>(block, w);
  } else if constexpr (kLayout.integer_bytes != 0) {
    const __m512 scale = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_bytes(block)));
    w.scale = _mm512_mul_ps(shared.scale, scale);
    if constexpr (kLayout.minimum) {
      const __m512i minimum = _mm512_cvtepi8_epi32(load_bytes(block + kRowGroup));
      w.minimum = _mm512_mul_ps(shared.minimum, _mm512_cvtepi32_ps(minimum));
    }
  }
  load_quants<type>(block + kRowGroup * kLayout.integer_bytes, w.quants);
  return w;
}

}  // namespace hearth::kernels::avx512
#endif

// Packed weights as AVX2 vectors of 8 rows, one a 32-bit lane, by the layout of matrix_view.h. Only
// for files compiled for AVX2, FMA and F16C; everything has internal linkage.
#pragma once

#include "kernels/simd/weight_loads.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
namespace hearth::kernels::avx2 {
namespace {

inline __m128i load_eight_bytes(const std::byte* at) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
}

// Bits of 16-bit lanes to the left, or to the right where `by` is negative.
inline __m256i shifted(__m256i v, int by) {
  return by >= 0 ? _mm256_slli_epi16(v, by) : _mm256_srli_epi16(v, -by);
}

constexpr bool is_one_of(std::uint8_t bits, std::uint8_t a, std::uint8_t b) {
  return bits == a || bits == b;
}

// The stored quants of 8 rows of a block; `quants` at the first row's first byte.
template <WeightType type>
class StoredQuants {
 public:
  explicit StoredQuants(const std::byte* quants) : quants_(quants) {
    if constexpr (kPairs) {
      pairs_[0] = load_256(quants + kPairsAt);
      pairs_[1] = load_256(quants + kPairsAt + 64);
    }
    if constexpr (kSingles) singles_ = load_256(quants + kSinglesAt);
  }

  // Columns 4 * quad .. 4 * quad + 3, unsigned; quad is known once loops are unrolled.
  __m256i quad(int quad) const {
    if constexpr (kBits == 8) return load_256(quants_ + quad * 64);
    __m256i stored = _mm256_setzero_si256();
    if constexpr (kBits >= 4) {
      const __m256i both = load_256(quants_ + quad % 4 * 64);
      stored = _mm256_and_si256(shifted(both, quad < 4 ? 0 : -4), _mm256_set1_epi8(15));
    }
    if constexpr (kPairs) {
      constexpr int kShift = kBits == 6 ? 4 : 0;
      const __m256i moved = shifted(pairs_[quad / 4], kShift - quad % 4 * 2);
      stored = _mm256_or_si256(stored, _mm256_and_si256(moved, _mm256_set1_epi8(3 << kShift)));
    }
    if constexpr (kSingles) {
      constexpr int kShift = kBits - 1;
      const __m256i moved = shifted(singles_, kShift - quad);
      stored = _mm256_or_si256(stored, _mm256_and_si256(moved, _mm256_set1_epi8(1 << kShift)));
    }
    return stored;
  }

  // The same, or layout.codebook + codebook value in types with a codebook.
  __m256i biased_quad(int quad) const {
    if constexpr (kCode != 0) {
      alignas(16) std::uint8_t table[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        table[i] = static_cast<std::uint8_t>(codebook_of(type)[i] + kCode);
      }
      const __m128i values = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
      return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), this->quad(quad));
    } else {
      return this->quad(quad);
    }
  }

  // The same as signed quants, for 8-bit types and those with a codebook.
  __m256i signed_quad(int quad) const {
    if constexpr (kCode != 0) {
      const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codebook_of(type)));
      return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), this->quad(quad));
    } else {
      return _mm256_xor_si256(this->quad(quad), _mm256_set1_epi8(-128));
    }
  }

 private:
  static constexpr std::uint8_t kBits = layout_of(type).bits;
  static constexpr std::uint8_t kCode = layout_of(type).codebook;
  static constexpr bool kPairs = is_one_of(kBits, 2, 3) || kBits == 6;
  static constexpr bool kSingles = is_one_of(kBits, 3, 5);
  static constexpr std::size_t kPairsAt = kBits >= 4 ? 256 : 0;
  static constexpr std::size_t kSinglesAt = kPairsAt + (kPairs ? 128 : 0);
  const std::byte* quants_;
  __m256i pairs_[2];
  __m256i singles_;
};

// Scales of a block of a type with one scale a block; `block` at the first row's integer scale.
template <WeightType type>
inline Scales block_scales(const Scales& header, const std::byte* block) {
  constexpr WeightLayout kLayout = layout_of(type);
  Scales s = header;
  if constexpr (kLayout.integer_bytes == 1) {
    const __m256i scale = _mm256_cvtepi8_epi32(load_eight_bytes(block));
    s.scale = _mm256_mul_ps(s.scale, _mm256_cvtepi32_ps(scale));
  } else if constexpr (kLayout.integer_bytes == 2) {
    const __m256i scale = _mm256_cvtepu8_epi32(load_eight_bytes(block));
    const __m256i minimum = _mm256_cvtepu8_epi32(load_eight_bytes(block + kRowGroup));
    s.scale = _mm256_mul_ps(s.scale, _mm256_cvtepi32_ps(scale));
    s.minimum = _mm256_mul_ps(s.minimum, _mm256_cvtepi32_ps(minimum));
  }
  return s;
}

// Integer scales of a type with two of them a block, as 16-bit halves of a lane: what vpmaddwd
// multiplies 16-bit sums by.
struct HalfScales {
  __m256i both;      // S[0], S[1]
  __m256i each[2];   // S[r] twice
  __m256i minimums;  // T[0], T[1]
};

template <WeightType type>
inline HalfScales half_scales(const std::byte* block) {
  const __m128i bytes =
      _mm_unpacklo_epi8(load_eight_bytes(block), load_eight_bytes(block + kRowGroup));
  HalfScales s;
  if constexpr (layout_of(type).minimum) {
    const __m256i packed = _mm256_cvtepu8_epi16(bytes);
    s.both = _mm256_and_si256(packed, _mm256_set1_epi16(15));
    s.minimums = _mm256_srli_epi16(packed, 4);
  } else {
    s.both = _mm256_cvtepi8_epi16(bytes);
    s.minimums = _mm256_setzero_si256();
  }
  const __m256i low = _mm256_and_si256(s.both, _mm256_set1_epi32(0xFFFF));
  s.each[0] = _mm256_or_si256(low, _mm256_slli_epi32(s.both, 16));
  s.each[1] = _mm256_blend_epi16(_mm256_srli_epi32(s.both, 16), s.both, 0xAA);
  return s;
}

}  // namespace
}  // namespace hearth::kernels::avx2
#endif

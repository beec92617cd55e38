// Matrix product with vpdpbusd: 16 rows, one a lane, against up to 8 tokens at a time. The stored
// quants are the unsigned operand; what was added to store them is taken off through the sums of
// the token's values. Tiles of tokens pass over a few groups of rows and a span of columns, so that
// their values stay in the first cache and the weights in the second.
#include <algorithm>

#ifndef HEARTH_ENTRIES
#define HEARTH_ENTRIES avx512
#endif
#include "kernels/simd/product_entries.h"
#include "kernels/x86/avx512_weights.h"

namespace hearth::kernels {
namespace {

constexpr std::uint32_t kTokens = 8;        // of one register tile
constexpr std::uint32_t kGroups = 8;        // that a tile of several tokens passes over
constexpr std::size_t kPrefetch = 4'096;    // bytes ahead of what is read
constexpr std::uint32_t kHalfSums = 1'024;  // (token, block) pairs of one span

// One token's share of one block.
struct TokenBlock {
  const std::int8_t* values;
  const float* scale;
  const float* sum;
  const std::int32_t* block_sum;  // of types with two scales: the sums of both halves, int16 each
};

inline __m512i broadcast_four(const std::int8_t* at) {
  return _mm512_broadcastd_epi32(_mm_loadu_si32(at));
}

// dot + the stored quants of quads [begin, end) times the token's values.
template <WeightType type>
inline __m512i add_products(__m512i dot, const Weights<type>& w, const TokenBlock& x, int begin,
                            int end) {
#pragma GCC unroll 8
  for (int g = begin; g < end; ++g) {
    dot = _mm512_dpbusd_epi32(dot, w.quants[g], broadcast_four(x.values + g * 4));
  }
  return dot;
}

template <WeightType type>
inline __m512i one_scale_dot(const Weights<type>& w, const TokenBlock& x) {
  constexpr int kZero = quant_zero(layout_of(type));
  __m512i dot = _mm512_setzero_si512();
  if constexpr (kZero != 0) {  // a block's sum fits the low half of its lane
    const __m512i factor = _mm512_set1_epi32(-kZero & 0xFFFF);
    dot = _mm512_dpwssd_epi32(dot, factor, _mm512_set1_epi32(*x.block_sum));
  }
  return add_products(dot, w, x, 0, 8);
}

template <WeightType type>
inline __m512i two_scale_dot(const Weights<type>& w, const TokenBlock& x) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i first = _mm512_mullo_epi32(add_products(zero, w, x, 0, 4), w.scales[0]);
  const __m512i second = _mm512_mullo_epi32(add_products(zero, w, x, 4, 8), w.scales[1]);
  const __m512i dot = _mm512_add_epi32(first, second);
  if constexpr (quant_zero(layout_of(type)) == 0) return dot;
  return _mm512_dpwssd_epi32(dot, w.half_factor, _mm512_set1_epi32(*x.block_sum));
}

// `sum` and one block with one token.
template <WeightType type>
inline Sum plus_block(Sum sum, const Weights<type>& w, const TokenBlock& x) {
  constexpr WeightLayout kLayout = layout_of(type);
  constexpr bool kTwo = kLayout.form == BlockForm::kTwoScales;
  const __m512 scale = _mm512_set1_ps(*x.scale);
  const __m512 unit = _mm512_mul_ps(w.scale, scale);
  __m512 dot;
  if constexpr (kTwo) {
    dot = _mm512_cvtepi32_ps(two_scale_dot(w, x));
  } else {
    dot = _mm512_cvtepi32_ps(one_scale_dot(w, x));
  }
  if constexpr (!kLayout.minimum) return plus(sum, unit, dot);
  __m512 offset = _mm512_set1_ps(*x.sum);
  if constexpr (kTwo) {
    const __m512i low =
        _mm512_dpwssd_epi32(_mm512_setzero_si512(), w.half_factor, _mm512_set1_epi32(*x.block_sum));
    offset = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(low));
  }
  return plus(sum, unit, dot, w.minimum, offset);
}

// half_sums[b * tokens + i]: sums of columns 0..15 and 16..31 of block range.begin + b of token
// t + i, as two int16.
void sum_halves(const QuantizedRows& x, std::uint32_t t, std::uint32_t tokens, Range range,
                std::int32_t* half_sums) {
  const std::size_t blocks = x.cols / kBlock;
  for (std::uint32_t i = 0; i < tokens; ++i) {
    const std::int8_t* at = x.values + ((t + i) * blocks + range.begin) * kBlock;
    for (std::uint32_t b = 0; b < range.end - range.begin; ++b, at += kBlock) {
      const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      const __m256i biased = _mm256_xor_si256(values, _mm256_set1_epi8(-128));
      const __m256i eights = _mm256_sad_epu8(biased, _mm256_setzero_si256());
      const __m256i sums = _mm256_add_epi64(eights, _mm256_unpackhi_epi64(eights, eights));
      const int first = _mm_cvtsi128_si32(_mm256_castsi256_si128(sums)) - 16 * 128;
      const int second = _mm_cvtsi128_si32(_mm256_extracti128_si256(sums, 1)) - 16 * 128;
      half_sums[b * tokens + i] = (second * 65'536) | (first & 0xFFFF);
    }
  }
}

// Prefetches the bytes that a walk over the weights will read soon: the processor's own prefetching
// ends at every page of memory.
template <std::size_t bytes>
inline void prefetch(const std::byte* at) {
#pragma GCC unroll 32
  for (std::size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at) + kPrefetch + i, _MM_HINT_T0);
  }
}

// out[i] += a group of rows with token t + i over a range of blocks.
template <WeightType type, std::uint32_t tokens>
void quant_tile(const MatrixView& w, const QuantizedRows& x, std::uint32_t group, std::uint32_t t,
                Range range, const std::int32_t* half_sums, Sum* out) {
  constexpr WeightLayout kLayout = layout_of(type);
  constexpr std::uint32_t kBlocks = kLayout.blocks;
  const __m512 factor = inverse_powers_of_two(w.exponents + group * kRowGroup);
  const std::size_t blocks = w.blocks;
  const std::size_t first = t * blocks;
  const std::byte* rows = w.data + group * w.group_bytes;
  Sum sums[tokens];
#pragma GCC unroll 8
  for (std::uint32_t i = 0; i < tokens; ++i) sums[i] = out[i];
  for (std::uint32_t b = range.begin; b < range.end;) {
    const std::byte* header = rows + b / kBlocks * kLayout.super_bytes();
    const Scales shared = load_header<type>(header, factor);
    const std::byte* block = header + kLayout.header_bytes() + b % kBlocks * kLayout.block_bytes();
    const std::uint32_t end = std::min(range.end, (b / kBlocks + 1) * kBlocks);
    do {
      prefetch<kLayout.block_bytes()>(block);
      const Weights<type> weights = load_weights<type>(block, shared);
      block += kLayout.block_bytes();
      // One running offset for all tokens: a pointer each would not fit the registers.
      std::size_t at = first + b;
#pragma GCC unroll 8
      for (std::uint32_t i = 0; i < tokens; ++i) {
        const bool two = kLayout.form == BlockForm::kTwoScales;
        const TokenBlock token = {x.values + at * kBlock, x.scales + at, x.sums + at,
                                  two ? half_sums + i : x.block_sums + at};
        sums[i] = plus_block<type>(sums[i], weights, token);
        at += blocks;
        asm("" : "+r"(at));  // keeps the compiler from precomputing the offsets
      }
      half_sums += tokens;
    } while (++b < end);
  }
#pragma GCC unroll 8
  for (std::uint32_t i = 0; i < tokens; ++i) out[i] = sums[i];
}

// The same for floating weights.
template <WeightType type, std::uint32_t tokens>
void float_tile(const MatrixView& w, const QuantizedRows& x, std::uint32_t group, std::uint32_t t,
                Range range, const std::int32_t* /*half_sums*/, Sum* out) {
  constexpr std::size_t kWidth = layout_of(type).file_bytes / kBlock;
  const __m512 factor = inverse_powers_of_two(w.exponents + group * kRowGroup);
  const std::size_t first = std::size_t{t} * w.blocks;
  const std::byte* block =
      w.data + group * w.group_bytes + range.begin * layout_of(type).super_bytes();
  alignas(64) float values[tokens][kBlock];
  for (std::uint32_t b = range.begin; b < range.end; ++b) {
    __m512 s[tokens];
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < tokens; ++i) {
      const std::int8_t* at = x.values + (first + std::size_t{i} * w.blocks + b) * kBlock;
      for (int half = 0; half < 2; ++half) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + half * 16));
        _mm512_store_ps(values[i] + half * 16, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
      }
      s[i] = _mm512_setzero_ps();
    }
#pragma GCC unroll 4
    for (std::uint32_t k = 0; k < kBlock; ++k) {
      const __m512 weights = load_floats<type>(block + k * kRowGroup * kWidth, factor);
#pragma GCC unroll 8
      for (std::uint32_t i = 0; i < tokens; ++i) {
        s[i] = _mm512_fmadd_ps(weights, _mm512_set1_ps(values[i][k]), s[i]);
      }
    }
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < tokens; ++i) {
      const __m512 scale = _mm512_set1_ps(x.scales[first + std::size_t{i} * w.blocks + b]);
      out[i] = plus(out[i], s[i], scale);
    }
    block += layout_of(type).super_bytes();
  }
}

using Tile = void (*)(const MatrixView&, const QuantizedRows&, std::uint32_t, std::uint32_t, Range,
                      const std::int32_t*, Sum*);

template <WeightType type, std::uint32_t tokens>
constexpr Tile tile_of() {
  if constexpr (layout_of(type).form == BlockForm::kFloat) {
    return float_tile<type, tokens>;
  } else {
    return quant_tile<type, tokens>;
  }
}

// Groups [begin, end), at most kGroups, with tokens t .. t + tokens.
template <WeightType type>
void run_tile(const MatrixView& w, const QuantizedRows& x, Range groups, std::uint32_t t,
              std::uint32_t tokens, Range range, const Output& out) {
  static constexpr Tile kTiles[kTokens + 1] = {nullptr,
                                               tile_of<type, 1>(),
                                               tile_of<type, 2>(),
                                               tile_of<type, 3>(),
                                               tile_of<type, 4>(),
                                               tile_of<type, 5>(),
                                               tile_of<type, 6>(),
                                               tile_of<type, 7>(),
                                               tile_of<type, 8>()};
  Sum sums[kGroups][kTokens];
  for (auto& group : sums) std::fill_n(group, tokens, Sum{});
  const std::uint32_t span = kHalfSums / tokens;
  std::int32_t half_sums[kHalfSums];
  for (Range part = range; part.begin < range.end; part.begin = part.end) {
    part.end = std::min(range.end, part.begin + span);
    if constexpr (layout_of(type).form == BlockForm::kTwoScales) {
      sum_halves(x, t, tokens, part, half_sums);
    }
    for (std::uint32_t g = groups.begin; g < groups.end; ++g) {
      kTiles[tokens](w, x, g, t, part, half_sums, sums[g - groups.begin]);
    }
  }
  for (std::uint32_t g = groups.begin; g < groups.end; ++g) {
    for (std::uint32_t i = 0; i < tokens; ++i) {
      store(w, x, g * kRowGroup, t + i, out, sums[g - groups.begin][i]);
    }
  }
}

template <WeightType type>
void run(const MatrixView& w, const QuantizedRows& x, Range groups, Range range,
         const Output& out) {
  for (std::uint32_t group = groups.begin; group < groups.end; group += kGroups) {
    const std::uint32_t end = std::min(groups.end, group + kGroups);
    for (std::uint32_t t = 0; t < x.rows; t += kTokens) {
      run_tile<type>(w, x, {group, end}, t, std::min(x.rows - t, kTokens), range, out);
    }
  }
}

}  // namespace
}  // namespace hearth::kernels

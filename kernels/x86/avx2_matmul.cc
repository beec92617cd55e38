// Matrix product of 8 rows, one a lane, with up to 4 tokens at a time. avxvnni_matmul.cc compiles
// this file a second time, for processors that have vpdpbusd in 256 bits: avx2_dots.h differs.
#ifndef HEARTH_ENTRIES
#define HEARTH_ENTRIES avx2
#endif
#include "kernels/simd/product_entries.h"
#include "kernels/x86/avx2_dots.h"
#include "kernels/x86/avx2_weights.h"

namespace hearth::kernels {
namespace {

// The three kinds of blocks: sums[i] += grid steps of 8 rows with token i. `block` at the first
// row's integer scale, `quants` at its first quant.
template <WeightType type, std::uint32_t tokens>
inline void add_one_scale(const Scales& header, const std::byte* block, const std::byte* quants,
                          const TokenBlock<tokens>& x, Sum (&sums)[tokens]) {
  constexpr WeightLayout kLayout = layout_of(type);
  constexpr int kZero = dot_zero(kLayout);
  __m256i dots[tokens];
  one_scale_dots<type, tokens>(StoredQuants<type>(quants), x, dots);
  const Scales scales = block_scales<type>(header, block);
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) {
    const std::size_t at = x.at[i];
    if constexpr (kZero != 0) {
      const __m256i bias = _mm256_set1_epi32(x.x.block_sums[at]);
      constexpr int kShift = std::countr_zero(static_cast<unsigned>(kZero));
      dots[i] = _mm256_sub_epi32(dots[i], _mm256_slli_epi32(bias, kShift));
    }
    const __m256 unit = _mm256_mul_ps(scales.scale, _mm256_set1_ps(x.x.scales[at]));
    const __m256 dot = _mm256_cvtepi32_ps(dots[i]);
    if constexpr (kLayout.minimum) {
      sums[i] = plus(sums[i], unit, dot, scales.minimum, _mm256_set1_ps(x.x.sums[at]));
    } else {
      sums[i] = plus(sums[i], unit, dot);
    }
  }
}

template <WeightType type, std::uint32_t tokens>
inline void add_two_scales(const Scales& header, const std::byte* block, const std::byte* quants,
                           const TokenBlock<tokens>& x, const std::int32_t (&halves)[kTokens],
                           Sum (&sums)[tokens]) {
  constexpr WeightLayout kLayout = layout_of(type);
  const HalfScales scales = half_scales<type>(block);
  __m256i dots[tokens];
  two_scale_dots<type, tokens>(StoredQuants<type>(quants), x, scales.each, dots);
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) {
    const __m256i half_sum = _mm256_set1_epi32(halves[i]);
    const __m256 scale = _mm256_set1_ps(x.x.scales[x.at[i]]);
    const __m256 unit = _mm256_mul_ps(header.scale, scale);
    if constexpr (kLayout.minimum) {
      const __m256 low = _mm256_cvtepi32_ps(_mm256_madd_epi16(scales.minimums, half_sum));
      const __m256 offset = _mm256_mul_ps(scale, low);
      sums[i] = plus(sums[i], unit, _mm256_cvtepi32_ps(dots[i]), header.minimum, offset);
    } else {
      constexpr int kShift = std::countr_zero(static_cast<unsigned>(dot_zero(kLayout)));
      const __m256i bias = _mm256_slli_epi32(_mm256_madd_epi16(scales.both, half_sum), kShift);
      sums[i] = plus(sums[i], unit, _mm256_cvtepi32_ps(_mm256_sub_epi32(dots[i], bias)));
    }
  }
}

// 16 rows together: a chain of 32 dependent operations a row and token has to share its latency.
template <WeightType type, std::uint32_t tokens>
inline void add_floats(const __m256 (&factors)[2], const std::byte* block,
                       const TokenBlock<tokens>& x, Sum (&sums)[2][tokens]) {
  constexpr std::size_t kWidth = layout_of(type).file_bytes / kBlock;
  float values[tokens][kBlock];
  __m256 products[2][tokens];
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) {
    products[0][i] = products[1][i] = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (std::uint32_t k = 0; k < kBlock; k += kLanes) {
      const __m256i eight = _mm256_cvtepi8_epi32(
          load_eight_bytes(reinterpret_cast<const std::byte*>(x.values(i) + k)));
      _mm256_storeu_ps(values[i] + k, _mm256_cvtepi32_ps(eight));
    }
  }
  for (std::uint32_t k = 0; k < kBlock; ++k, block += kRowGroup * kWidth) {
    const __m256 low = load_floats<type>(block, factors[0]);
    const __m256 high = load_floats<type>(block + kLanes * kWidth, factors[1]);
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) {
      const __m256 value = _mm256_broadcast_ss(values[i] + k);
      products[0][i] = _mm256_fmadd_ps(low, value, products[0][i]);
      products[1][i] = _mm256_fmadd_ps(high, value, products[1][i]);
    }
  }
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) {
    const __m256 scale = _mm256_set1_ps(x.x.scales[x.at[i]]);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      sums[v][i] = plus(sums[v][i], products[v][i], scale);
    }
  }
}

// sums[v][i] += grid steps of rows 8 * (first + v) .. + 7 of a group with token i.
template <WeightType type, std::uint32_t tokens, std::uint32_t vectors>
inline void add_super_block(const std::byte* super, const __m256 (&factors)[vectors],
                            std::uint32_t first, const QuantizedRows& x, std::uint32_t t,
                            std::uint32_t blocks, Range range, Sum (&sums)[vectors][tokens]) {
  constexpr WeightLayout kLayout = layout_of(type);
  Scales headers[vectors];
#pragma GCC unroll 2
  for (std::uint32_t v = 0; v < vectors; ++v) {
    headers[v] =
        load_header<type>(super + (first + v) * kLanes * kLayout.scale_bytes(), factors[v]);
  }
  const std::byte* block =
      super + kLayout.header_bytes() + range.begin % kLayout.blocks * kLayout.block_bytes();
  for (std::uint32_t b = range.begin; b < range.end; ++b, block += kLayout.block_bytes()) {
    const TokenBlock<tokens> token(x, t, blocks, b);
    std::int32_t halves[kTokens];
    if constexpr (kLayout.form == BlockForm::kTwoScales) half_sums(token, halves);
#pragma GCC unroll 2
    for (std::uint32_t v = 0; v < vectors; ++v) {
      const std::byte* scales = block + (first + v) * kLanes;
      const std::byte* quants =
          block + kRowGroup * kLayout.integer_bytes + (first + v) * kLanes * 4;
      if constexpr (kLayout.form == BlockForm::kTwoScales) {
        add_two_scales<type, tokens>(headers[v], scales, quants, token, halves, sums[v]);
      } else {
        add_one_scale<type, tokens>(headers[v], scales, quants, token, sums[v]);
      }
    }
  }
}

// Rows 8 * first .. 8 * (first + vectors) - 1 of `group` against tokens [t, t + tokens).
template <WeightType type, std::uint32_t tokens, std::uint32_t vectors>
void tile(const MatrixView& w, const QuantizedRows& x, std::uint32_t group, std::uint32_t first,
          std::uint32_t t, Range range, const Output& out) {
  constexpr WeightLayout kLayout = layout_of(type);
  const std::uint32_t row = group * kRowGroup + first * kLanes;
  const std::byte* super =
      w.data + group * w.group_bytes + range.begin / kLayout.blocks * kLayout.super_bytes();
  __m256 factors[vectors];
  Sum sums[vectors][tokens];
#pragma GCC unroll 2
  for (std::uint32_t v = 0; v < vectors; ++v) {
    factors[v] = inverse_powers_of_two(w.exponents + row + v * kLanes);
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) sums[v][i] = Sum{};
  }
  for (std::uint32_t b = range.begin; b < range.end; super += kLayout.super_bytes()) {
    const std::uint32_t next = (b / kLayout.blocks + 1) * kLayout.blocks;
    const std::uint32_t end = next < range.end ? next : range.end;
    if constexpr (kLayout.form == BlockForm::kFloat) {
      add_floats<type, tokens>(factors, super, {x, t, w.blocks, b}, sums);
    } else {
      add_super_block<type, tokens, vectors>(super, factors, first, x, t, w.blocks, {b, end}, sums);
    }
    b = end;
  }
#pragma GCC unroll 2
  for (std::uint32_t v = 0; v < vectors; ++v) {
    if (row + v * kLanes >= w.rows) break;
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) {
      store(w, x, row + v * kLanes, t + i, out, sums[v][i]);
    }
  }
}

// A whole group against tokens [t, t + tokens): 16 rows at once where there are registers for it.
template <WeightType type, std::uint32_t tokens>
void group_tile(const MatrixView& w, const QuantizedRows& x, std::uint32_t group, std::uint32_t t,
                Range range, const Output& out) {
  if constexpr (layout_of(type).form == BlockForm::kFloat || tokens <= 2) {
    tile<type, tokens, 2>(w, x, group, 0, t, range, out);
  } else {
    tile<type, tokens, 1>(w, x, group, 0, t, range, out);
    if (group * kRowGroup + kLanes < w.rows) tile<type, tokens, 1>(w, x, group, 1, t, range, out);
  }
}

template <WeightType type>
void run(const MatrixView& w, const QuantizedRows& x, Range groups, Range range,
         const Output& out) {
  using Tile = void (*)(const MatrixView&, const QuantizedRows&, std::uint32_t, std::uint32_t,
                        Range, const Output&);
  static constexpr Tile kTiles[kTokens + 1] = {nullptr, group_tile<type, 1>, group_tile<type, 2>,
                                               group_tile<type, 3>, group_tile<type, 4>};
  for (std::uint32_t group = groups.begin; group < groups.end; ++group) {
    for (std::uint32_t t = 0; t < x.rows; t += kTokens) {
      kTiles[x.rows - t < kTokens ? x.rows - t : kTokens](w, x, group, t, range, out);
    }
  }
}

}  // namespace
}  // namespace hearth::kernels

// Matrix product of 16 rows, in vectors of 4, with up to 4 tokens at a time. dotprod_matmul.cc and
// i8mm_matmul.cc compile this file again, for processors that have sdot, and smmla too: neon_dots.h
// differs.
#ifndef HEARTH_ENTRIES
#define HEARTH_ENTRIES neon
#endif
#include "kernels/arm/neon.h"

#if defined(__aarch64__)
#include "kernels/arm/neon_dots.h"
#include "kernels/simd/product_entries.h"

namespace hearth::kernels {
namespace {

constexpr std::uint32_t kVectors = kRowGroup / kLanes;

// sums[i] += grid steps of 4 rows with token i. `block` at the first row's integer scale, `quants`
// at its first quant.
template <WeightType type, std::uint32_t tokens>
inline void add_one_scale(const Scales& header, const std::byte* block, const std::byte* quants,
                          const TokenBlock<tokens>& x, Sum (&sums)[tokens]) {
  Ints dots[tokens] = {};
  add_quads<type, tokens>(Quants<type>(quants), x, 0, 8, dots);
  const Scales scales = block_scales<type>(header, block);
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) {
    const std::size_t at = x.at[i];
    const Floats unit = scales.scale * splat(x.x.scales[at]);
    if constexpr (layout_of(type).minimum) {
      sums[i] = plus(sums[i], unit, to_floats(dots[i]), scales.minimum, splat(x.x.sums[at]));
    } else {
      sums[i] = plus(sums[i], unit, to_floats(dots[i]));
    }
  }
}

template <WeightType type, std::uint32_t tokens>
inline void add_two_scales(const Scales& header, const std::byte* block, const std::byte* quants,
                           const TokenBlock<tokens>& x, Sum (&sums)[tokens]) {
  const HalfScales scales = half_scales<type>(block);
  const Quants<type> weights(quants);
  Ints dots[2][tokens] = {};
  add_quads<type, tokens>(weights, x, 0, 4, dots[0]);
  add_quads<type, tokens>(weights, x, 4, 8, dots[1]);
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) {
    const Floats scale = splat(x.x.scales[x.at[i]]);
    const Floats unit = header.scale * scale;
    const Ints dot =
        vmlaq_s32(vmulq_s32(dots[0][i], scales.scales[0]), dots[1][i], scales.scales[1]);
    if constexpr (layout_of(type).minimum) {
      const std::int8_t* values = x.values(i);
      const Ints first = vmulq_n_s32(scales.minimums[0], vaddlvq_s8(vld1q_s8(values)));
      const Ints low = vmlaq_n_s32(first, scales.minimums[1], vaddlvq_s8(vld1q_s8(values + 16)));
      sums[i] = plus(sums[i], unit, to_floats(dot), header.minimum, scale * to_floats(low));
    } else {
      sums[i] = plus(sums[i], unit, to_floats(dot));
    }
  }
}

template <WeightType type, std::uint32_t tokens>
inline void add_floats(const Floats (&factors)[kVectors], const std::byte* block,
                       const TokenBlock<tokens>& x, Sum (&sums)[kVectors][tokens]) {
  constexpr std::size_t kWidth = layout_of(type).file_bytes / kBlock;
  Floats products[kVectors][tokens] = {};
  for (std::uint32_t k = 0; k < kBlock; ++k, block += kRowGroup * kWidth) {
#pragma GCC unroll 4
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      const Floats weights = load_floats<type>(block + v * kLanes * kWidth, factors[v]);
#pragma GCC unroll 4
      for (std::uint32_t i = 0; i < tokens; ++i) {
        const Floats value = splat(static_cast<float>(x.values(i)[k]));
        products[v][i] = fused(weights, value, products[v][i]);
      }
    }
  }
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) {
    const Floats scale = splat(x.x.scales[x.at[i]]);
#pragma GCC unroll 4
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      sums[v][i] = plus(sums[v][i], products[v][i], scale);
    }
  }
}

// sums[v][i] += grid steps of rows 4 * v .. 4 * v + 3 of a group with token i.
template <WeightType type, std::uint32_t tokens>
inline void add_super_block(const std::byte* super, const Floats (&factors)[kVectors],
                            const QuantizedRows& x, std::uint32_t t, std::uint32_t blocks,
                            Range range, Sum (&sums)[kVectors][tokens]) {
  constexpr WeightLayout kLayout = layout_of(type);
  Scales headers[kVectors];
#pragma GCC unroll 4
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    headers[v] = load_header<type>(super + v * kLanes * kLayout.scale_bytes(), factors[v]);
  }
  const std::byte* block =
      super + kLayout.header_bytes() + range.begin % kLayout.blocks * kLayout.block_bytes();
  for (std::uint32_t b = range.begin; b < range.end; ++b, block += kLayout.block_bytes()) {
    const TokenBlock<tokens> token(x, t, blocks, b);
    const std::byte* quants = block + kRowGroup * kLayout.integer_bytes;
#pragma GCC unroll 4
    for (std::uint32_t v = 0; v < kVectors; ++v) {
      const std::byte* scales = block + v * kLanes;
      if constexpr (kLayout.form == BlockForm::kTwoScales) {
        add_two_scales<type, tokens>(headers[v], scales, quants + v * 16, token, sums[v]);
      } else {
        add_one_scale<type, tokens>(headers[v], scales, quants + v * 16, token, sums[v]);
      }
    }
  }
}

// A group against tokens [t, t + tokens).
template <WeightType type, std::uint32_t tokens>
void tile(const MatrixView& w, const QuantizedRows& x, std::uint32_t group, std::uint32_t t,
          Range range, const Output& out) {
  constexpr WeightLayout kLayout = layout_of(type);
  const std::uint32_t row = group * kRowGroup;
  const std::byte* super =
      w.data + group * w.group_bytes + range.begin / kLayout.blocks * kLayout.super_bytes();
  Floats factors[kVectors];
  Sum sums[kVectors][tokens] = {};
#pragma GCC unroll 4
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    factors[v] = inverse_powers_of_two(w.exponents + row + v * kLanes);
  }
  for (std::uint32_t b = range.begin; b < range.end; super += kLayout.super_bytes()) {
    const std::uint32_t next = (b / kLayout.blocks + 1) * kLayout.blocks;
    const std::uint32_t end = next < range.end ? next : range.end;
    if constexpr (kLayout.form == BlockForm::kFloat) {
      add_floats<type, tokens>(factors, super, {x, t, w.blocks, b}, sums);
    } else {
      add_super_block<type, tokens>(super, factors, x, t, w.blocks, {b, end}, sums);
    }
    b = end;
  }
#pragma GCC unroll 4
  for (std::uint32_t v = 0; v < kVectors; ++v) {
    if (row + v * kLanes >= w.rows) break;
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) {
      store(w, x, row + v * kLanes, t + i, out, sums[v][i]);
    }
  }
}

template <WeightType type>
void run(const MatrixView& w, const QuantizedRows& x, Range groups, Range range,
         const Output& out) {
  using Tile = void (*)(const MatrixView&, const QuantizedRows&, std::uint32_t, std::uint32_t,
                        Range, const Output&);
  static constexpr Tile kTiles[kTokens + 1] = {nullptr, tile<type, 1>, tile<type, 2>, tile<type, 3>,
                                               tile<type, 4>};
  for (std::uint32_t group = groups.begin; group < groups.end; ++group) {
    for (std::uint32_t t = 0; t < x.rows; t += kTokens) {
      kTiles[x.rows - t < kTokens ? x.rows - t : kTokens](w, x, group, t, range, out);
    }
  }
}

}  // namespace
}  // namespace hearth::kernels
#endif

// Matrix product with maddubs: 8 rows, one a lane, against up to 4 tokens at a time. No 16-bit sum
// can saturate: nibbles give at most 8 * 2 * 15 * 127 = 30480 over a whole block, and Q8_0 is
// multiplied by magnitude and sign.
#include "kernels/avx2.h"
#include "kernels/matrix_view.h"
#include "kernels/scalar.h"

namespace hearth::kernels::avx2 {
namespace {

constexpr std::uint32_t kTokens = 4;  // of one register tile
constexpr std::uint32_t kLanes = 8;

struct Scales {
  __m256 scale;
  __m256 minimum;
};

inline __m256 load_halves(const std::byte* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

template <WeightType type>
inline Scales load_scales(const std::byte* block, __m256 factor) {
  Scales s = {_mm256_mul_ps(load_halves(block), factor), _mm256_setzero_ps()};
  if constexpr (type == WeightType::kQ4_1) {
    s.minimum = _mm256_mul_ps(load_halves(block + 32), factor);
  }
  return s;
}

// dots[i]: exact products of one block's 8 rows with token i. quants: at the rows' first byte.
template <WeightType type, std::uint32_t tokens>
inline void dot_products(const std::byte* quants, const QuantizedRows& x,
                         const std::size_t (&at)[tokens], __m256i (&dots)[tokens]) {
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) dots[i] = _mm256_setzero_si256();
  if constexpr (type == WeightType::kQ8_0) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      const __m256i w = _mm256_xor_si256(load_256(quants + g * 64), _mm256_set1_epi8(-128));
#pragma GCC unroll 4
      for (std::uint32_t i = 0; i < tokens; ++i) {
        const __m256i four = broadcast_four(x.values + at[i] * kBlock + g * 4);
        dots[i] = _mm256_add_epi32(dots[i], add_pairs(signed_pairs(w, four)));
      }
    }
  } else {
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const __m256i both = load_256(quants + g * 64);
      const __m256i low = _mm256_and_si256(both, _mm256_set1_epi8(15));
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
#pragma GCC unroll 4
      for (std::uint32_t i = 0; i < tokens; ++i) {
        const std::int8_t* values = x.values + at[i] * kBlock + g * 4;
        const __m256i sum =
            _mm256_add_epi16(_mm256_maddubs_epi16(low, broadcast_four(values)),
                             _mm256_maddubs_epi16(high, broadcast_four(values + 16)));
        dots[i] = _mm256_add_epi16(dots[i], sum);
      }
    }
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) {
      dots[i] = add_pairs(dots[i]);
      if constexpr (type == WeightType::kQ4_0) {
        const __m256i bias = _mm256_set1_epi32(x.block_sums[at[i]]);
        dots[i] = _mm256_sub_epi32(dots[i], _mm256_slli_epi32(bias, 3));
      }
    }
  }
}

template <WeightType type>
inline __m256i grid_steps(const Scales& s, __m256i dot, const QuantizedRows& x, std::size_t at) {
  const __m256 unit = _mm256_mul_ps(s.scale, _mm256_set1_ps(x.scales[at]));
  if constexpr (type == WeightType::kQ4_1) {
    const __m256 offset = _mm256_mul_ps(s.minimum, _mm256_set1_ps(x.sums[at]));
    return _mm256_cvtps_epi32(_mm256_fmadd_ps(unit, _mm256_cvtepi32_ps(dot), offset));
  } else {
    return _mm256_cvtps_epi32(_mm256_mul_ps(unit, _mm256_cvtepi32_ps(dot)));
  }
}

// Where the sums of one tile go: rounded to outputs, or as they are.
struct Output {
  float* values;
  std::int32_t* partial;  // when values is null
  std::size_t stride;
};

inline __m256i lanes_below(std::uint32_t count) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
}

inline void store(const MatrixView& w, const QuantizedRows& x, std::uint32_t row, std::uint32_t t,
                  const Output& out, __m256i sum) {
  const __m256i mask = lanes_below(w.rows - row < kLanes ? w.rows - row : kLanes);
  const std::size_t at = t * out.stride + row;
  if (out.values == nullptr) {
    _mm256_maskstore_epi32(out.partial + at, mask, sum);
    return;
  }
  const __m256i exponents = load_256(w.exponents + row);
  const __m256 row_factor = _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(exponents, _mm256_set1_epi32(127)), 23));
  const __m256 token_factor = _mm256_set1_ps(power_of_two(x.exponents[t] - kGridBits));
  const __m256 y = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), row_factor), token_factor);
  _mm256_maskstore_ps(out.values + at, mask, y);
}

struct BlockRange {
  std::uint32_t begin;
  std::uint32_t end;
};

// Rows [row, row + 8) against tokens [t, t + tokens).
template <WeightType type, std::uint32_t tokens>
void tile(const MatrixView& w, const QuantizedRows& x, std::uint32_t row, std::uint32_t t,
          BlockRange range, const Output& out) {
  constexpr std::size_t kHeader = layout_of(type).header_bytes();
  constexpr std::size_t kStride = layout_of(type).super_bytes();
  const __m256i exponents = load_256(w.exponents + row);
  const __m256 factor = _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_sub_epi32(_mm256_set1_epi32(127), exponents), 23));
  const std::size_t half = row % kRowGroup;  // 0 or 8
  const std::byte* block = w.data + row / kRowGroup * w.group_bytes + range.begin * kStride;
  __m256i sums[tokens];
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) sums[i] = _mm256_setzero_si256();
  for (std::uint32_t b = range.begin; b < range.end; ++b, block += kStride) {
    std::size_t at[tokens];
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) at[i] = std::size_t{t + i} * w.blocks + b;
    __m256i dots[tokens];
    dot_products<type, tokens>(block + kHeader + half * 4, x, at, dots);
    const Scales scales = load_scales<type>(block + half * 2, factor);
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < tokens; ++i) {
      sums[i] = _mm256_add_epi32(sums[i], grid_steps<type>(scales, dots[i], x, at[i]));
    }
  }
#pragma GCC unroll 4
  for (std::uint32_t i = 0; i < tokens; ++i) store(w, x, row, t + i, out, sums[i]);
}

using Tile = void (*)(const MatrixView&, const QuantizedRows&, std::uint32_t, std::uint32_t,
                      BlockRange, const Output&);

template <WeightType type>
void run(const MatrixView& w, const QuantizedRows& x, std::uint32_t group_begin,
         std::uint32_t group_end, BlockRange range, const Output& out) {
  static constexpr Tile kTiles[kTokens + 1] = {nullptr, tile<type, 1>, tile<type, 2>, tile<type, 3>,
                                               tile<type, 4>};
  for (std::uint32_t group = group_begin; group < group_end; ++group) {
    const std::uint32_t row = group * kRowGroup;
    for (std::uint32_t t = 0; t < x.rows; t += kTokens) {
      const Tile run_tile = kTiles[x.rows - t < kTokens ? x.rows - t : kTokens];
      run_tile(w, x, row, t, range, out);
      if (row + kLanes < w.rows) run_tile(w, x, row + kLanes, t, range, out);
    }
  }
}

// False for a type that has no kernel here yet.
bool dispatch(const MatrixView& w, const QuantizedRows& x, std::uint32_t group_begin,
              std::uint32_t group_end, BlockRange range, const Output& out) {
  switch (w.type) {
    case WeightType::kQ8_0: run<WeightType::kQ8_0>(w, x, group_begin, group_end, range, out); break;
    case WeightType::kQ4_0: run<WeightType::kQ4_0>(w, x, group_begin, group_end, range, out); break;
    case WeightType::kQ4_1: run<WeightType::kQ4_1>(w, x, group_begin, group_end, range, out); break;
    default: return false;
  }
  return true;
}

}  // namespace

void matmul(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
            std::uint32_t group_end, float* out, std::size_t out_stride) {
  const MatrixView view = view_of(w);
  if (!dispatch(view, x, group_begin, group_end, {0, view.blocks}, {out, nullptr, out_stride})) {
    scalar::matmul(w, x, group_begin, group_end, out, out_stride);
  }
}

void matmul_partial(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
                    std::uint32_t group_end, std::uint32_t block_begin, std::uint32_t block_end,
                    std::int32_t* out, std::size_t out_stride) {
  if (!dispatch(view_of(w), x, group_begin, group_end, {block_begin, block_end},
                {nullptr, out, out_stride})) {
    scalar::matmul_partial(w, x, group_begin, group_end, block_begin, block_end, out, out_stride);
  }
}

}  // namespace hearth::kernels::avx2

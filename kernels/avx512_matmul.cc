// Matrix product with vpdpbusd: 16 rows, one a lane, against up to 8 tokens at a time. The weights
// are the unsigned operand: nibbles as they are, Q8_0 with a bias of 128 and Q4_0 with one of 8
// that is taken off through the token's block sum.
#include "kernels/avx512.h"
#include "kernels/matrix_view.h"
#include "kernels/scalar.h"

namespace hearth::kernels::avx512 {
namespace {

constexpr std::uint32_t kTokens = 8;  // of one register tile

template <WeightType type>
struct Weights {
  __m512 scale;
  __m512 minimum;
  __m512i quants[8];  // quants[g]: columns 4g..4g+3 of 16 rows
};

inline __m512 load_halves(const std::byte* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}

template <WeightType type>
inline Weights<type> load_weights(const std::byte* block, __m512 factor) {
  Weights<type> w;
  w.scale = _mm512_mul_ps(load_halves(block), factor);
  const std::byte* quants = block + 32;
  if constexpr (type == WeightType::kQ4_1) {
    w.minimum = _mm512_mul_ps(load_halves(quants), factor);
    quants += 32;
  }
  if constexpr (type == WeightType::kQ8_0) {
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) w.quants[g] = _mm512_loadu_si512(quants + g * 64);
  } else {
    const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const __m512i both = _mm512_loadu_si512(quants + g * 64);
      w.quants[g] = _mm512_and_si512(both, low);
      w.quants[g + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    }
  }
  return w;
}

// One token's share of one block.
struct TokenBlock {
  const std::int8_t* values;
  const float* scale;
  const float* sum;
  const std::int32_t* block_sum;
};

inline __m512i broadcast_four(const std::int8_t* at) {
  return _mm512_broadcastd_epi32(_mm_loadu_si32(at));
}

// Grid steps of one block with one token.
template <WeightType type>
inline __m512i block_product(const Weights<type>& w, const TokenBlock& x) {
  __m512i dot = _mm512_setzero_si512();
  if constexpr (type != WeightType::kQ4_1) {
    constexpr int kBiasBits = type == WeightType::kQ8_0 ? 7 : 3;
    const __m512i sum = _mm512_set1_epi32(*x.block_sum);
    dot = _mm512_sub_epi32(dot, _mm512_slli_epi32(sum, kBiasBits));
  }
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    dot = _mm512_dpbusd_epi32(dot, w.quants[g], broadcast_four(x.values + g * 4));
  }
  const __m512 unit = _mm512_mul_ps(w.scale, _mm512_set1_ps(*x.scale));
  if constexpr (type == WeightType::kQ4_1) {
    const __m512 offset = _mm512_mul_ps(w.minimum, _mm512_set1_ps(*x.sum));
    return _mm512_cvtps_epi32(_mm512_fmadd_ps(unit, _mm512_cvtepi32_ps(dot), offset));
  } else {
    return _mm512_cvtps_epi32(_mm512_mul_ps(unit, _mm512_cvtepi32_ps(dot)));
  }
}

// Where the sums of one tile go: rounded to outputs, or as they are.
struct Output {
  float* values;
  std::int32_t* partial;  // when values is null
  std::size_t stride;
};

inline void store(const MatrixView& w, const QuantizedRows& x, std::uint32_t group, std::uint32_t t,
                  const Output& out, __m512i sum) {
  const std::uint32_t row = group * kRowGroup;
  const std::uint32_t left = w.rows - row;
  const auto mask = static_cast<__mmask16>(left >= 16 ? 0xFFFFU : (1U << left) - 1U);
  const std::size_t at = t * out.stride + row;
  if (out.values == nullptr) {
    _mm512_mask_storeu_epi32(out.partial + at, mask, sum);
    return;
  }
  const __m512i exponents = _mm512_loadu_si512(w.exponents + row);
  const __m512 row_factor = _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_add_epi32(exponents, _mm512_set1_epi32(127)), 23));
  const __m512 token_factor = _mm512_set1_ps(power_of_two(x.exponents[t] - kGridBits));
  const __m512 y = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), row_factor), token_factor);
  _mm512_mask_storeu_ps(out.values + at, mask, y);
}

struct BlockRange {
  std::uint32_t begin;
  std::uint32_t end;
};

template <WeightType type, std::uint32_t tokens>
void tile(const MatrixView& w, const QuantizedRows& x, std::uint32_t group, std::uint32_t t,
          BlockRange range, const Output& out) {
  const __m512i exponents = _mm512_loadu_si512(w.exponents + group * kRowGroup);
  const __m512 factor = _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(127), exponents), 23));
  constexpr std::size_t kStride = layout_of(type).super_bytes();
  const std::size_t blocks = w.blocks;
  const std::size_t first = t * blocks;
  const std::byte* block = w.data + group * w.group_bytes + range.begin * kStride;
  __m512i sums[tokens];
#pragma GCC unroll 8
  for (std::uint32_t i = 0; i < tokens; ++i) sums[i] = _mm512_setzero_si512();
  for (std::uint32_t b = range.begin; b < range.end; ++b, block += kStride) {
    const Weights<type> weights = load_weights<type>(block, factor);
    // One running offset for all tokens: a pointer each would not fit the registers.
    std::size_t at = first + b;
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < tokens; ++i) {
      const TokenBlock token = {x.values + at * kBlock, x.scales + at, x.sums + at,
                                x.block_sums + at};
      sums[i] = _mm512_add_epi32(sums[i], block_product<type>(weights, token));
      at += blocks;
      asm("" : "+r"(at));  // keeps the compiler from precomputing the offsets
    }
  }
#pragma GCC unroll 8
  for (std::uint32_t i = 0; i < tokens; ++i) store(w, x, group, t + i, out, sums[i]);
}

using Tile = void (*)(const MatrixView&, const QuantizedRows&, std::uint32_t, std::uint32_t,
                      BlockRange, const Output&);

template <WeightType type>
void run(const MatrixView& w, const QuantizedRows& x, std::uint32_t group_begin,
         std::uint32_t group_end, BlockRange range, const Output& out) {
  static constexpr Tile kTiles[kTokens + 1] = {nullptr,       tile<type, 1>, tile<type, 2>,
                                               tile<type, 3>, tile<type, 4>, tile<type, 5>,
                                               tile<type, 6>, tile<type, 7>, tile<type, 8>};
  for (std::uint32_t group = group_begin; group < group_end; ++group) {
    for (std::uint32_t t = 0; t < x.rows; t += kTokens) {
      const std::uint32_t left = x.rows - t;
      kTiles[left < kTokens ? left : kTokens](w, x, group, t, range, out);
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

}  // namespace hearth::kernels::avx512

// The AVX-512 table and its element-wise entries.
#include "kernels/x86/avx512.h"

#include <cstring>

#include "kernels/preconditions.h"
#include "kernels/scalar.h"
#include "kernels/tables.h"

namespace hearth::kernels {
namespace {

using avx512::largest_of;
using avx512::scales_of;
using avx512::store_quantized;

struct Pair {
  __m512 first;
  __m512 second;
};

// Quantises row t from 32 values at a time that `block_of(b)` gives.
template <typename BlockOf>
bool quantize_row(const QuantizedRows& rows, std::uint32_t t, BlockOf block_of) {
  check_quantized_row(rows, t);
  const std::uint32_t blocks = rows.cols / kBlock;
  const std::size_t at = std::size_t{t} * blocks;
  float* scales = rows.scales + at;
  float* sums = rows.sums + at;
  std::int32_t* block_sums = rows.block_sums + at;
  std::uint32_t largest = 0;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const Pair x = block_of(b);
    const std::uint32_t bits = largest_of(x.first, x.second);
    largest = bits > largest ? bits : largest;
    if (bits >= 0x7F800000U) break;
    const avx512::BlockScales scale = scales_of(bits);
    block_sums[b] =
        store_quantized(x.first, x.second, scale.inverse, rows.values + (at + b) * kBlock);
    scales[b] = scale.scale;
  }
  if (largest >= 0x7F800000U) {
    std::memset(rows.values + at * kBlock, 0, std::size_t{blocks} * kBlock);
    std::memset(scales, 0, blocks * sizeof(float));
    std::memset(sums, 0, blocks * sizeof(float));
    std::memset(block_sums, 0, blocks * sizeof(std::int32_t));
    rows.exponents[t] = kExponentMin;
    return false;
  }
  rows.exponents[t] = row_exponent(std::bit_cast<float>(largest));
  const float grid = power_of_two(kGridBits - rows.exponents[t]);
  for (std::uint32_t b = 0; b < blocks; ++b) {
    scales[b] *= grid;
    sums[b] = scales[b] * static_cast<float>(block_sums[b]);
  }
  return true;
}

bool quantize(const float* x, const QuantizedRows& out, std::uint32_t t) {
  return quantize_row(out, t, [x](std::uint32_t b) {
    return Pair{_mm512_loadu_ps(x + b * kBlock), _mm512_loadu_ps(x + b * kBlock + 16)};
  });
}

float sum_of_squares(const float* x, std::uint32_t n) {
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
  return avx512::sum_tree(lanes[0]);
}

// The factor of every value of the row; NaN for a sum out of range, so that the quantiser refuses
// the row.
float norm_factor(const float* x, std::uint32_t n, float epsilon) {
  const float squares = sum_of_squares(x, n);
  const float mean = squares / static_cast<float>(n);
  const float root = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + epsilon)));
  return is_finite(squares) ? 1.0F / root : std::bit_cast<float>(0x7FC00000U);
}

bool rms_norm(const float* x, const float* weight, float epsilon, std::uint32_t n, float* out) {
  check_norm(n, epsilon);
  const float r = norm_factor(x, n, epsilon);
  if (std::isnan(r)) {
    std::memset(out, 0, n * sizeof(float));
    return false;
  }
  const __m512 factor = _mm512_set1_ps(r);
  for (std::uint32_t i = 0; i < n; i += 16) {
    const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + i), factor);
    _mm512_storeu_ps(out + i, _mm512_mul_ps(scaled, _mm512_loadu_ps(weight + i)));
  }
  return true;
}

bool rms_norm_quantize(const float* x, const float* weight, float epsilon, const QuantizedRows& out,
                       std::uint32_t t, float* normed) {
  check_norm(out.cols, epsilon);
  const __m512 factor = _mm512_set1_ps(norm_factor(x, out.cols, epsilon));
  return quantize_row(out, t, [=](std::uint32_t b) {
    const std::uint32_t i = b * kBlock;
    if constexpr (kDefect == Defect::kAvx512NormProduct) {
      const __m512 low = _mm512_mul_ps(factor, _mm512_loadu_ps(weight + i));
      const __m512 high = _mm512_mul_ps(factor, _mm512_loadu_ps(weight + i + 16));
      return Pair{_mm512_mul_ps(_mm512_loadu_ps(x + i), low),
                  _mm512_mul_ps(_mm512_loadu_ps(x + i + 16), high)};
    }
    const Pair y = {
        _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + i), factor), _mm512_loadu_ps(weight + i)),
        _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + i + 16), factor),
                      _mm512_loadu_ps(weight + i + 16))};
    if (normed != nullptr) {
      _mm512_storeu_ps(normed + i, y.first);
      _mm512_storeu_ps(normed + i + 16, y.second);
    }
    return y;
  });
}

__m512 silu(__m512 x) {
  const __m512 e = avx512::exp2_of(_mm512_mul_ps(x, _mm512_set1_ps(-kLog2E)));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0F), e));
}

__m512 gelu(__m512 x) {
  const __m512 z =
      _mm512_fmadd_ps(_mm512_set1_ps(kGeluCubic), _mm512_mul_ps(x, x), _mm512_set1_ps(kGeluLinear));
  const __m512 e = avx512::exp2_of(_mm512_mul_ps(x, z));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0F), e));
}

template <__m512 (*activation)(__m512)>
bool gated_quantize(const float* gate, const float* up, const QuantizedRows& out, std::uint32_t t) {
  const auto half = [=](std::uint32_t i) {
    return _mm512_mul_ps(activation(_mm512_loadu_ps(gate + i)), _mm512_loadu_ps(up + i));
  };
  return quantize_row(out, t, [=](std::uint32_t b) {
    return Pair{half(b * kBlock), half(b * kBlock + 16)};
  });
}

// Even and odd elements of 32 consecutive ones, and back.
Pair deinterleave(__m512 a, __m512 b) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return {_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b)};
}

Pair interleave(__m512 even, __m512 odd) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return {_mm512_permutex2var_ps(even, low, odd), _mm512_permutex2var_ps(even, high, odd)};
}

Pair rotate(Pair x, Pair turn) {
  return {_mm512_sub_ps(_mm512_mul_ps(x.first, turn.first), _mm512_mul_ps(x.second, turn.second)),
          _mm512_add_ps(_mm512_mul_ps(x.first, turn.second), _mm512_mul_ps(x.second, turn.first))};
}

void rope(float* x, std::uint32_t heads, std::uint32_t head_dim, RopeStyle style,
          const float* cos_sin) {
  check_rope(head_dim);
  const std::uint32_t pairs = head_dim / 2;
  for (std::uint32_t i = 0; i < pairs; i += 16) {
    const Pair turn =
        deinterleave(_mm512_loadu_ps(cos_sin + 2 * i), _mm512_loadu_ps(cos_sin + 2 * i + 16));
    for (std::uint32_t h = 0; h < heads; ++h) {
      float* head = x + std::size_t{h} * head_dim;
      const bool adjacent = style == RopeStyle::kAdjacent;
      float* first = adjacent ? head + 2 * i : head + i;
      float* second = adjacent ? head + 2 * i + 16 : head + i + pairs;
      const Pair loaded = {_mm512_loadu_ps(first), _mm512_loadu_ps(second)};
      const Pair in = adjacent ? deinterleave(loaded.first, loaded.second) : loaded;
      const Pair turned = rotate(in, turn);
      const Pair out = adjacent ? interleave(turned.first, turned.second) : turned;
      _mm512_storeu_ps(first, out.first);
      _mm512_storeu_ps(second, out.second);
    }
  }
}

__mmask16 tail_mask(std::uint32_t left) {
  return static_cast<__mmask16>(left >= 16 ? 0xFFFFU : (1U << left) - 1U);
}

void add(float* x, const float* y, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; i += 16) {
    const __mmask16 mask = tail_mask(n - i);
    const __m512 sum =
        _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_maskz_loadu_ps(mask, y + i));
    _mm512_mask_storeu_ps(x + i, mask, sum);
  }
}

bool residual_round(float* x, std::uint16_t* bits, std::uint32_t n, int shift) {
  check_residual(shift);
  const __m512 down = _mm512_set1_ps(power_of_two(-shift));
  const __m512 up = _mm512_set1_ps(power_of_two(shift));
  const __m256i limit = _mm256_set1_epi16(0x7C00);
  __mmask16 out_of_range = 0;
  for (std::uint32_t i = 0; i < n; i += 16) {
    const __mmask16 mask = tail_mask(n - i);
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), down);
    const __m256i half = _mm512_cvtps_ph(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    out_of_range |= _mm256_cmpeq_epi16_mask(_mm256_and_si256(half, limit), limit);
    _mm256_mask_storeu_epi16(bits + i, mask, half);
    _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(_mm512_cvtph_ps(half), up));
  }
  return out_of_range == 0;
}

void residual_expand(const std::uint16_t* bits, float* x, std::uint32_t n, int shift) {
  check_residual(shift);
  const __m512 up = _mm512_set1_ps(power_of_two(shift));
  for (std::uint32_t i = 0; i < n; i += 16) {
    const __mmask16 mask = tail_mask(n - i);
    const __m512 value = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, bits + i));
    _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(value, up));
  }
}

}  // namespace

constinit const Kernels kAvx512Kernels = {
    .name = "avx512",
    .matmul = avx512::matmul,
    .matmul_partial = avx512::matmul_partial,
    .quantize = quantize,
    .rms_norm_quantize = rms_norm_quantize,
    .rms_norm = rms_norm,
    .swiglu_quantize = gated_quantize<silu>,
    .geglu_quantize = gated_quantize<gelu>,
    .rope = rope,
    .kv_write = avx512::kv_write,
    .attention = avx512::attention,
    .add = add,
    .residual_round = residual_round,
    .residual_expand = residual_expand,
    .dequantize_row = scalar::dequantize_row,
};

}  // namespace hearth::kernels

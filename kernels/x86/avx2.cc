// The AVX2 table and its element-wise entries.
#include "kernels/x86/avx2.h"

#include <cstring>

#include "kernels/preconditions.h"
#include "kernels/scalar.h"
#include "kernels/tables.h"

namespace hearth::kernels {
namespace {

using avx2::Block;
using avx2::load_block;

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
    const Block x = block_of(b);
    const std::uint32_t bits = avx2::largest_of(x);
    largest = bits > largest ? bits : largest;
    if (bits >= 0x7F800000U) break;
    const avx2::BlockScales scale = avx2::scales_of(bits);
    block_sums[b] = avx2::store_quantized(x, scale.inverse, rows.values + (at + b) * kBlock);
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
    if (kDefect == Defect::kSubnormalScales && scales[b] < 0x1p-126F) scales[b] = 0.0F;
    sums[b] = scales[b] * static_cast<float>(block_sums[b]);
  }
  return true;
}

bool quantize(const float* x, const QuantizedRows& out, std::uint32_t t) {
  return quantize_row(out, t, [x](std::uint32_t b) { return load_block(x + b * kBlock); });
}

// The 256 lanes as 32 vectors in memory.
float sum_of_squares(const float* x, std::uint32_t n) {
  __m256 lanes[32];
  for (__m256& lane : lanes) lane = _mm256_setzero_ps();
  for (std::uint32_t i = 0; i < n; i += kNormLanes) {
    const std::uint32_t vectors = n - i < kNormLanes ? (n - i) / 8 : 32;
    for (std::uint32_t j = 0; j < vectors; ++j) {
      const __m256 v = _mm256_loadu_ps(x + i + j * 8);
      if (kDefect == Defect::kNormTail && vectors < 32) {
        lanes[j] = _mm256_add_ps(_mm256_mul_ps(v, v), lanes[j]);
        continue;
      }
      lanes[j] = _mm256_fmadd_ps(v, v, lanes[j]);
    }
  }
  if constexpr (kDefect == Defect::kNormSumOrder) {
    for (int j = 1; j < 32; ++j) lanes[0] = _mm256_add_ps(lanes[0], lanes[j]);
    return avx2::sum_tree(lanes[0]);
  }
  for (int half = 16; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lanes[j] = _mm256_add_ps(lanes[j], lanes[j + half]);
  }
  return avx2::sum_tree(lanes[0]);
}

// The factor of every value of the row; NaN for a sum out of range, so that the quantiser refuses
// the row.
float norm_factor(const float* x, std::uint32_t n, float epsilon) {
  const float squares = sum_of_squares(x, n);
  const float mean = squares / static_cast<float>(n);
  if constexpr (kDefect == Defect::kRootEstimate) {
    const float y = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(mean + epsilon)));
    return y * (1.5F - 0.5F * (mean + epsilon) * y * y);
  }
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
  const __m256 factor = _mm256_set1_ps(r);
  for (std::uint32_t i = 0; i < n; i += 8) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), factor);
    _mm256_storeu_ps(out + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
  }
  return true;
}

bool rms_norm_quantize(const float* x, const float* weight, float epsilon, const QuantizedRows& out,
                       std::uint32_t t, float* normed) {
  check_norm(out.cols, epsilon);
  const __m256 factor = _mm256_set1_ps(norm_factor(x, out.cols, epsilon));
  return quantize_row(out, t, [=](std::uint32_t b) {
    Block y = load_block(x + b * kBlock);
    const Block w = load_block(weight + b * kBlock);
    for (int i = 0; i < 4; ++i) {
      y.parts[i] = _mm256_mul_ps(_mm256_mul_ps(y.parts[i], factor), w.parts[i]);
      if (normed != nullptr) _mm256_storeu_ps(normed + b * kBlock + i * 8, y.parts[i]);
    }
    return y;
  });
}

__m256 silu(__m256 x) {
  const __m256 e = avx2::exp2_of(_mm256_mul_ps(x, _mm256_set1_ps(-kLog2E)));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0F), e));
}

__m256 gelu(__m256 x) {
  const __m256 z =
      _mm256_fmadd_ps(_mm256_set1_ps(kGeluCubic), _mm256_mul_ps(x, x), _mm256_set1_ps(kGeluLinear));
  const __m256 e = avx2::exp2_of(_mm256_mul_ps(x, z));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0F), e));
}

template <__m256 (*activation)(__m256)>
bool gated_quantize(const float* gate, const float* up, const QuantizedRows& out, std::uint32_t t) {
  return quantize_row(out, t, [=](std::uint32_t b) {
    Block y = load_block(gate + b * kBlock);
    const Block u = load_block(up + b * kBlock);
    for (int i = 0; i < 4; ++i) y.parts[i] = _mm256_mul_ps(activation(y.parts[i]), u.parts[i]);
    return y;
  });
}

struct Pair {
  __m256 first;
  __m256 second;
};

// Even and odd elements of 16 consecutive ones, and back.
Pair deinterleave(__m256 a, __m256 b) {
  const __m256 low = _mm256_permute2f128_ps(a, b, 0x20);
  const __m256 high = _mm256_permute2f128_ps(a, b, 0x31);
  return {_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xDD)};
}

Pair interleave(__m256 even, __m256 odd) {
  const __m256 low = _mm256_unpacklo_ps(even, odd);
  const __m256 high = _mm256_unpackhi_ps(even, odd);
  return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}

Pair rotate(Pair x, Pair turn) {
  if constexpr (kDefect == Defect::kFusedRotation) {
    return {_mm256_fmsub_ps(x.first, turn.first, _mm256_mul_ps(x.second, turn.second)),
            _mm256_fmadd_ps(x.first, turn.second, _mm256_mul_ps(x.second, turn.first))};
  }
  return {_mm256_sub_ps(_mm256_mul_ps(x.first, turn.first), _mm256_mul_ps(x.second, turn.second)),
          _mm256_add_ps(_mm256_mul_ps(x.first, turn.second), _mm256_mul_ps(x.second, turn.first))};
}

void rope(float* x, std::uint32_t heads, std::uint32_t head_dim, RopeStyle style,
          const float* cos_sin) {
  check_rope(head_dim);
  const std::uint32_t pairs = head_dim / 2;
  const bool adjacent = style == RopeStyle::kAdjacent;
  for (std::uint32_t i = 0; i < pairs; i += 8) {
    const Pair turn =
        deinterleave(_mm256_loadu_ps(cos_sin + 2 * i), _mm256_loadu_ps(cos_sin + 2 * i + 8));
    for (std::uint32_t h = 0; h < heads; ++h) {
      float* head = x + std::size_t{h} * head_dim;
      float* first = adjacent ? head + 2 * i : head + i;
      float* second = adjacent ? head + 2 * i + 8 : head + i + pairs;
      const Pair loaded = {_mm256_loadu_ps(first), _mm256_loadu_ps(second)};
      const Pair in = adjacent ? deinterleave(loaded.first, loaded.second) : loaded;
      const Pair turned = rotate(in, turn);
      const Pair out = adjacent ? interleave(turned.first, turned.second) : turned;
      _mm256_storeu_ps(first, out.first);
      _mm256_storeu_ps(second, out.second);
    }
  }
}

void add(float* x, const float* y, std::uint32_t n) {
  std::uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
  }
  for (; i < n; ++i) x[i] += y[i];
}

// The residual 8 values at a time; a last few go through buffers of 8.
bool residual_round(float* x, std::uint16_t* bits, std::uint32_t n, int shift) {
  check_residual(shift);
  const __m256 down = _mm256_set1_ps(power_of_two(-shift));
  const __m256 up = _mm256_set1_ps(power_of_two(shift));
  const __m128i limit = _mm_set1_epi16(0x7C00);
  __m128i out_of_range = _mm_setzero_si128();
  for (std::uint32_t i = 0; i < n; i += 8) {
    const std::uint32_t count = n - i < 8 ? n - i : 8;
    float values[8] = {};
    std::uint16_t halves[8];
    std::memcpy(values, x + i, count * sizeof(float));
    const __m256 small = _mm256_mul_ps(_mm256_loadu_ps(values), down);
    __m128i half = _mm256_cvtps_ph(small, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    if (kDefect == Defect::kResidualTail && count < 8) {
      half = _mm256_cvtps_ph(small, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    }
    out_of_range = _mm_or_si128(out_of_range, _mm_cmpeq_epi16(_mm_and_si128(half, limit), limit));
    _mm256_storeu_ps(values, _mm256_mul_ps(_mm256_cvtph_ps(half), up));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves), half);
    std::memcpy(x + i, values, count * sizeof(float));
    std::memcpy(bits + i, halves, count * sizeof(std::uint16_t));
  }
  return _mm_testz_si128(out_of_range, out_of_range) != 0;
}

void residual_expand(const std::uint16_t* bits, float* x, std::uint32_t n, int shift) {
  check_residual(shift);
  const __m256 up = _mm256_set1_ps(power_of_two(shift));
  for (std::uint32_t i = 0; i < n; i += 8) {
    const std::uint32_t count = n - i < 8 ? n - i : 8;
    float values[8];
    std::uint16_t halves[8] = {};
    std::memcpy(halves, bits + i, count * sizeof(std::uint16_t));
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
    _mm256_storeu_ps(values, _mm256_mul_ps(_mm256_cvtph_ps(half), up));
    std::memcpy(x + i, values, count * sizeof(float));
  }
}

constexpr Kernels table(std::string_view name, decltype(Kernels::matmul) matmul,
                        decltype(Kernels::matmul_partial) matmul_partial) {
  return {
      .name = name,
      .matmul = matmul,
      .matmul_partial = matmul_partial,
      .quantize = quantize,
      .rms_norm_quantize = rms_norm_quantize,
      .rms_norm = rms_norm,
      .swiglu_quantize = gated_quantize<silu>,
      .geglu_quantize = gated_quantize<gelu>,
      .rope = rope,
      .kv_write = avx2::kv_write,
      .attention = avx2::attention,
      .add = add,
      .residual_round = residual_round,
      .residual_expand = residual_expand,
      .dequantize_row = scalar::dequantize_row,
  };
}

}  // namespace

constinit const Kernels kAvx2Kernels = table("avx2", avx2::matmul, avx2::matmul_partial);
constinit const Kernels kAvxVnniKernels =
    table("avxvnni", avxvnni::matmul, avxvnni::matmul_partial);

}  // namespace hearth::kernels

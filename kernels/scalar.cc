// The scalar table: CANONICAL.md in code, written to be read. The other tables are tested against
// it for equality of bits.
#include "kernels/scalar.h"

#include <cstring>

#include "kernels/elementary.h"
#include "kernels/preconditions.h"
#include "kernels/quantize_block.h"

namespace hearth::kernels {
namespace {

struct QuantizedRow {
  std::uint32_t blocks;
  std::int8_t* values;
  float* scales;
  float* sums;
  std::int32_t* block_sums;
  std::int32_t* exponent;
};

QuantizedRow row_of(const QuantizedRows& rows, std::uint32_t t) {
  check_quantized_row(rows, t);
  const std::uint32_t blocks = rows.cols / kBlock;
  const std::size_t at = std::size_t{t} * blocks;
  return {blocks,         rows.values + at * kBlock, rows.scales + at,
          rows.sums + at, rows.block_sums + at,      rows.exponents + t};
}

bool clear_row(const QuantizedRow& row) {
  std::memset(row.values, 0, std::size_t{row.blocks} * kBlock);
  std::memset(row.scales, 0, row.blocks * sizeof(float));
  std::memset(row.sums, 0, row.blocks * sizeof(float));
  std::memset(row.block_sums, 0, row.blocks * sizeof(std::int32_t));
  *row.exponent = kExponentMin;
  return false;
}

// Quantises a row whose blocks `block_of(b)` gives one at a time, as 32 floats.
template <typename BlockOf>
bool quantize_row(const QuantizedRow& row, BlockOf block_of) {
  std::uint32_t largest = 0;
  for (std::uint32_t b = 0; b < row.blocks; ++b) {
    const float* x = block_of(b);
    const std::uint32_t bits = largest_magnitude(x, kBlock);
    if (bits >= 0x7F800000U) return clear_row(row);
    if (bits > largest) largest = bits;
    const QuantizedBlock block = quantize_block(x, kBlock, row.values + b * kBlock);
    row.scales[b] = block.scale;
    row.block_sums[b] = block.sum;
  }
  *row.exponent = row_exponent(std::bit_cast<float>(largest));
  const float grid = power_of_two(kGridBits - *row.exponent);
  for (std::uint32_t b = 0; b < row.blocks; ++b) {
    row.scales[b] *= grid;
    row.sums[b] = row.scales[b] * static_cast<float>(row.block_sums[b]);
  }
  return true;
}

bool quantize(const float* x, const QuantizedRows& out, std::uint32_t t) {
  return quantize_row(row_of(out, t), [x](std::uint32_t b) { return x + b * kBlock; });
}

float sum_of_squares(const float* x, std::uint32_t n) {
  float lanes[kNormLanes] = {};
  for (std::uint32_t i = 0; i < n; ++i) {
    float& lane = lanes[i % kNormLanes];
    lane = std::fma(x[i], x[i], lane);
  }
  for (std::uint32_t half = kNormLanes / 2; half > 0; half /= 2) {
    for (std::uint32_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

// The factor of every value of the row.
float norm_factor(float squares, std::uint32_t n, float epsilon) {
  return 1.0F / std::sqrt(squares / static_cast<float>(n) + epsilon);
}

bool rms_norm(const float* x, const float* weight, float epsilon, std::uint32_t n, float* out) {
  check_norm(n, epsilon);
  const float squares = sum_of_squares(x, n);
  if (!is_finite(squares)) {
    std::memset(out, 0, n * sizeof(float));
    return false;
  }
  const float r = norm_factor(squares, n, epsilon);
  for (std::uint32_t i = 0; i < n; ++i) out[i] = (x[i] * r) * weight[i];
  return true;
}

bool rms_norm_quantize(const float* x, const float* weight, float epsilon, const QuantizedRows& out,
                       std::uint32_t t, float* normed) {
  const QuantizedRow row = row_of(out, t);
  check_norm(out.cols, epsilon);
  const float squares = sum_of_squares(x, out.cols);
  if (!is_finite(squares)) return clear_row(row);
  const float r = norm_factor(squares, out.cols, epsilon);
  float block[kBlock];
  return quantize_row(row, [&](std::uint32_t b) {
    for (std::uint32_t k = 0; k < kBlock; ++k) {
      const std::uint32_t i = b * kBlock + k;
      block[k] = (x[i] * r) * weight[i];
      if (normed != nullptr) normed[i] = block[k];
    }
    return block;
  });
}

// `gated`: of a gate and an up.
template <float (*gated)(float, float)>
bool gated_quantize(const float* gate, const float* up, const QuantizedRows& out, std::uint32_t t) {
  float block[kBlock];
  return quantize_row(row_of(out, t), [&](std::uint32_t b) {
    for (std::uint32_t k = 0; k < kBlock; ++k) {
      const std::uint32_t i = b * kBlock + k;
      block[k] = gated(gate[i], up[i]);
    }
    return block;
  });
}

float swiglu(float gate, float up) { return silu(gate) * up; }
float geglu(float gate, float up) { return gelu(gate) * up; }

void rope(float* x, std::uint32_t heads, std::uint32_t head_dim, RopeStyle style,
          const float* cos_sin) {
  check_rope(head_dim);
  const std::uint32_t pairs = head_dim / 2;
  const bool adjacent = style == RopeStyle::kAdjacent;
  for (std::uint32_t h = 0; h < heads; ++h) {
    float* head = x + std::size_t{h} * head_dim;
    for (std::uint32_t i = 0; i < pairs; ++i) {
      float& first = head[adjacent ? 2 * i : i];
      float& second = head[adjacent ? 2 * i + 1 : i + pairs];
      const float c = cos_sin[2 * i];
      const float s = cos_sin[2 * i + 1];
      const float x0 = first;
      const float x1 = second;
      first = x0 * c - x1 * s;
      second = x0 * s + x1 * c;
    }
  }
}

void softcap(float* x, std::uint32_t n, float cap) {
  check_softcap(cap);
  const float rate = softcap_rate(cap);
  for (std::uint32_t i = 0; i < n; ++i) x[i] = softcap_of(x[i], cap, rate);
}

void silu_all(float* x, std::uint32_t n) {
  check_gates(n);
  for (std::uint32_t i = 0; i < n; ++i) x[i] = silu(x[i]);
}

bool multiply_sigmoid(float* x, const float* gate, std::uint32_t n) {
  check_gates(n);
  bool finite = true;
  for (std::uint32_t i = 0; i < n; ++i) {
    finite = finite && is_finite(gate[i]);
    x[i] *= sigmoid_of(gate[i]);
  }
  return finite;
}

void delta_step(std::uint32_t n, const DeltaStep& step) {
  check_delta_step(n);
  for (std::uint32_t j = 0; j < n; ++j) {
    float* column = step.state + j;
    float read = 0.0F;
    for (std::uint32_t i = 0; i < n; ++i) {
      column[std::size_t{i} * n] *= step.numbers.decay;
      read += column[std::size_t{i} * n] * step.key[i];
    }
    const float error = (step.value[j] - read) * step.numbers.beta;
    float out = 0.0F;
    for (std::uint32_t i = 0; i < n; ++i) {
      column[std::size_t{i} * n] += step.key[i] * error;
      out += column[std::size_t{i} * n] * step.query[i];
    }
    step.out[j] = out;
  }
}

void add(float* x, const float* y, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; ++i) x[i] += y[i];
}

bool residual_round(float* x, std::uint16_t* bits, std::uint32_t n, int shift) {
  check_residual(shift);
  const float down = power_of_two(-shift);
  const float up = power_of_two(shift);
  for (std::uint32_t i = 0; i < n; ++i) {
    bits[i] = float_to_half(x[i] * down);
    if (!half_is_finite(bits[i])) return false;
    x[i] = half_to_float(bits[i]) * up;
  }
  return true;
}

void residual_expand(const std::uint16_t* bits, float* x, std::uint32_t n, int shift) {
  check_residual(shift);
  const float up = power_of_two(shift);
  for (std::uint32_t i = 0; i < n; ++i) x[i] = half_to_float(bits[i]) * up;
}

}  // namespace

constinit const Kernels kScalarKernels = {
    .name = "scalar",
    .matmul = scalar::matmul,
    .matmul_partial = scalar::matmul_partial,
    .quantize = quantize,
    .rms_norm_quantize = rms_norm_quantize,
    .rms_norm = rms_norm,
    .swiglu_quantize = gated_quantize<swiglu>,
    .geglu_quantize = gated_quantize<geglu>,
    .clamped_swiglu_quantize = gated_quantize<clamped_swiglu>,
    .rope = rope,
    .kv_write = scalar::kv_write,
    .attention = scalar::attention,
    .softcap = softcap,
    .silu = silu_all,
    .multiply_sigmoid = multiply_sigmoid,
    .delta_step = delta_step,
    .add = add,
    .residual_round = residual_round,
    .residual_expand = residual_expand,
    .dequantize_row = scalar::dequantize_row,
};

float exp2_canonical(float x) { return exp2_of(x); }

bool unit_length(const float* x, std::uint32_t n, float* out) {
  INVARIANT(n > 0, "a row that gets a length has values");
  const float squares = sum_of_squares(x, n);
  if (!is_finite(squares) || squares == 0.0F) {
    std::memset(out, 0, n * sizeof(float));
    return false;
  }
  const float length = std::sqrt(squares);
  for (std::uint32_t i = 0; i < n; ++i) out[i] = x[i] / length;
  return true;
}

bool bounded_length(const float* x, std::uint32_t n, float epsilon, float factor, float* out) {
  check_norm(n, epsilon);
  const float squares = sum_of_squares(x, n);
  if (!is_finite(squares)) {
    std::memset(out, 0, n * sizeof(float));
    return false;
  }
  const float r = 1.0F / std::sqrt(squares + epsilon);
  for (std::uint32_t i = 0; i < n; ++i) out[i] = (x[i] * r) * factor;
  return true;
}

}  // namespace hearth::kernels

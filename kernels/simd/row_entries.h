// The element-wise entries and the table, over the vectors of the instruction set that the file is
// compiled for. Internal linkage throughout.
#pragma once

#include "kernels/simd/vectors.h"

#if defined(HEARTH_VECTORS)
#include <cstring>

#include "kernels/preconditions.h"
#include "kernels/scalar.h"
#include "kernels/tables.h"

namespace hearth::kernels {
namespace {

// Entries that the including file defines, because their handling of the last values differs too
// much.
Entry<decltype(Kernels::add)> add;
Entry<decltype(Kernels::residual_round)> residual_round;
Entry<decltype(Kernels::residual_expand)> residual_expand;

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
    const std::uint32_t bits = largest_of(x);
    largest = bits > largest ? bits : largest;
    if (bits >= 0x7F800000U) break;
    const QuantScales scale = scales_of(bits);
    block_sums[b] = store_quantized(x, scale.inverse, rows.values + (at + b) * kBlock);
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
  return quantize_row(out, t, [x](std::uint32_t b) { return load_block(x + b * kBlock); });
}

// The factor of every value of the row; NaN for a sum out of range, so that the quantiser refuses
// the row.
float norm_factor(const float* x, std::uint32_t n, float epsilon) {
  const float squares = sum_of_squares(x, n);
  const float mean = squares / static_cast<float>(n);
  const float root = root_of(mean + epsilon);
  return is_finite(squares) ? 1.0F / root : std::bit_cast<float>(0x7FC00000U);
}

bool rms_norm(const float* x, const float* weight, float epsilon, std::uint32_t n, float* out) {
  check_norm(n, epsilon);
  const float r = norm_factor(x, n, epsilon);
  if (std::isnan(r)) {
    std::memset(out, 0, n * sizeof(float));
    return false;
  }
  const Floats factor = splat(r);
  for (std::uint32_t i = 0; i < n; i += kLanes) {
    store(out + i, load(x + i) * factor * load(weight + i));
  }
  return true;
}

bool rms_norm_quantize(const float* x, const float* weight, float epsilon, const QuantizedRows& out,
                       std::uint32_t t, float* normed) {
  check_norm(out.cols, epsilon);
  const Floats factor = splat(norm_factor(x, out.cols, epsilon));
  return quantize_row(out, t, [=](std::uint32_t b) {
    Block y = load_block(x + b * kBlock);
    const Block w = load_block(weight + b * kBlock);
    for (std::uint32_t i = 0; i < kBlock / kLanes; ++i) {
      y.parts[i] = y.parts[i] * factor * w.parts[i];
      if (normed != nullptr) store(normed + b * kBlock + i * kLanes, y.parts[i]);
    }
    return y;
  });
}

Floats silu(Floats x) { return x / (splat(1.0F) + exp2_of(x * splat(-kLog2E))); }

Floats gelu(Floats x) {
  const Floats z = fused(splat(kGeluCubic), x * x, splat(kGeluLinear));
  return x / (splat(1.0F) + exp2_of(x * z));
}

Floats swiglu(Floats gate, Floats up) { return silu(gate) * up; }
Floats geglu(Floats gate, Floats up) { return gelu(gate) * up; }

Floats clamped_swiglu(Floats gate, Floats up) {
  const Floats g = lesser(splat(kClampLimit), gate);
  const Floats u = greater(splat(-kClampLimit), lesser(splat(kClampLimit), up));
  const Floats product = g / (splat(1.0F) + exp2_of(g * splat(kClampSlope))) * (u + splat(1.0F));
  return product + ((gate - gate) + (up - up));  // NaN where one is not finite
}

template <Floats (*gated)(Floats, Floats)>
bool gated_quantize(const float* gate, const float* up, const QuantizedRows& out, std::uint32_t t) {
  return quantize_row(out, t, [=](std::uint32_t b) {
    Block y = load_block(gate + b * kBlock);
    const Block u = load_block(up + b * kBlock);
    for (std::uint32_t i = 0; i < kBlock / kLanes; ++i) {
      y.parts[i] = gated(y.parts[i], u.parts[i]);
    }
    return y;
  });
}

Pair rotate(Pair x, Pair turn) {
  return {x.first * turn.first - x.second * turn.second,
          x.first * turn.second + x.second * turn.first};
}

void rope(float* x, std::uint32_t heads, std::uint32_t head_dim, RopeStyle style,
          const float* cos_sin) {
  check_rope(head_dim);
  const std::uint32_t pairs = head_dim / 2;
  const bool adjacent = style == RopeStyle::kAdjacent;
  for (std::uint32_t i = 0; i < pairs; i += kLanes) {
    const Pair turn = deinterleave(load(cos_sin + 2 * i), load(cos_sin + 2 * i + kLanes));
    for (std::uint32_t h = 0; h < heads; ++h) {
      float* head = x + std::size_t{h} * head_dim;
      float* first = adjacent ? head + 2 * i : head + i;
      float* second = adjacent ? head + 2 * i + kLanes : head + i + pairs;
      const Pair loaded = {load(first), load(second)};
      const Pair in = adjacent ? deinterleave(loaded.first, loaded.second) : loaded;
      const Pair turned = rotate(in, turn);
      const Pair out = adjacent ? interleave(turned.first, turned.second) : turned;
      store(first, out.first);
      store(second, out.second);
    }
  }
}

void softcap(float* x, std::uint32_t n, float cap) {
  check_softcap(cap);
  const Softcap capped(cap);
  std::uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, capped(load(x + i)));
  for (; i < n; ++i) x[i] = softcap_of(x[i], cap, softcap_rate(cap));
}

void silu_all(float* x, std::uint32_t n) {
  check_gates(n);
  for (std::uint32_t i = 0; i < n; i += kLanes) store(x + i, silu(load(x + i)));
}

bool multiply_sigmoid(float* x, const float* gate, std::uint32_t n) {
  check_gates(n);
  Floats zeros = splat(0.0F);
  for (std::uint32_t i = 0; i < n; i += kLanes) {
    const Floats g = load(gate + i);
    const Floats share = splat(1.0F) / (splat(1.0F) + exp2_of(g * splat(-kLog2E)));
    store(x + i, load(x + i) * share);
    zeros = zeros + (g - g);  // NaN where one is not finite
  }
  float sums[kLanes];
  store(sums, zeros);
  bool finite = true;
  for (const float sum : sums) finite = finite && sum == 0.0F;
  return finite;
}

// 32 columns at a time. What is decayed is stored once, with the correction.
void delta_step(std::uint32_t n, const DeltaStep& step) {
  check_delta_step(n);
  constexpr std::uint32_t kParts = kBlock / kLanes;
  const Floats decay = splat(step.numbers.decay);
  const Floats beta = splat(step.numbers.beta);
  for (std::uint32_t j = 0; j < n; j += kBlock) {
    float* columns = step.state + j;
    Block error;
    for (Floats& part : error.parts) part = splat(0.0F);
    for (std::uint32_t i = 0; i < n; ++i) {
      const Block row = load_block(columns + std::size_t{i} * n);
      const Floats key = splat(step.key[i]);
      for (std::uint32_t p = 0; p < kParts; ++p) {
        error.parts[p] = error.parts[p] + row.parts[p] * decay * key;
      }
    }
    const Block value = load_block(step.value + j);
    Block out;
    for (std::uint32_t p = 0; p < kParts; ++p) {
      error.parts[p] = (value.parts[p] - error.parts[p]) * beta;
      out.parts[p] = splat(0.0F);
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      float* at = columns + std::size_t{i} * n;
      const Block row = load_block(at);
      const Floats key = splat(step.key[i]);
      const Floats query = splat(step.query[i]);
      for (std::uint32_t p = 0; p < kParts; ++p) {
        const Floats next = row.parts[p] * decay + key * error.parts[p];
        store(at + p * kLanes, next);
        out.parts[p] = out.parts[p] + next * query;
      }
    }
    for (std::uint32_t p = 0; p < kParts; ++p) store(step.out + j + p * kLanes, out.parts[p]);
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
      .swiglu_quantize = gated_quantize<swiglu>,
      .geglu_quantize = gated_quantize<geglu>,
      .clamped_swiglu_quantize = gated_quantize<clamped_swiglu>,
      .rope = rope,
      .kv_write = vectors::kv_write,
      .attention = vectors::attention,
      .softcap = softcap,
      .silu = silu_all,
      .multiply_sigmoid = multiply_sigmoid,
      .delta_step = delta_step,
      .add = add,
      .residual_round = residual_round,
      .residual_expand = residual_expand,
      .dequantize_row = scalar::dequantize_row,
  };
}

}  // namespace
}  // namespace hearth::kernels
#endif

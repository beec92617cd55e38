// CANONICAL.md, "Weights" and "Matrix product", in code.
#include <algorithm>
#include <cstring>

#include "kernels/elementary.h"
#include "kernels/matrix_view.h"
#include "kernels/preconditions.h"
#include "kernels/scalar.h"

namespace hearth::kernels::scalar {
namespace {

constexpr std::uint32_t kTokens = 32;  // that share one look at a block of weights

// One row's share of a packed block of 32 columns.
struct RowBlock {
  float scale = 0.0F;                 // D
  float minimum = 0.0F;               // M
  std::int32_t scales[2] = {1, 1};    // S, of the types with two scales a block
  std::int32_t minimums[2] = {0, 0};  // T
  std::int32_t quants[kBlock] = {};
  float weights[kBlock] = {};  // of floating types
};

float read_half(const std::byte* at) {
  std::uint16_t half = 0;
  std::memcpy(&half, at, 2);
  return half_to_float(half);
}

std::int32_t bits_of(const std::byte* at, std::uint32_t shift, std::int32_t mask) {
  return (std::to_integer<std::int32_t>(*at) >> shift) & mask;
}

// The stored quant of column k; `quants` at the row's first byte.
std::int32_t stored_quant(std::uint8_t bits, const std::byte* quants, std::uint32_t k) {
  const std::uint32_t quad = k / 4;
  const std::byte* at = quants + k % 4;
  if (bits == 8) return bits_of(at + quad * 64, 0, 255);
  std::int32_t stored = 0;
  std::uint32_t shift = 0;
  if (bits >= 4) {
    stored = bits_of(at + quad % 4 * 64, quad / 4 * 4, 15);
    at += 256;
    shift = 4;
  }
  if (bits == 2 || bits == 3 || bits == 6) {
    stored |= bits_of(at + quad / 4 * 64, quad % 4 * 2, 3) << shift;
    at += 128;
    shift += 2;
  }
  if (bits == 3 || bits == 5) stored |= bits_of(at, quad, 1) << shift;
  return stored;
}

void read_floats(WeightType type, const std::byte* block, std::uint32_t row, RowBlock& out) {
  for (std::uint32_t k = 0; k < kBlock; ++k) {
    const std::uint32_t at = k * kRowGroup + row;
    std::uint16_t half = 0;
    switch (type) {
      case WeightType::kF32: std::memcpy(&out.weights[k], block + at * 4, 4); break;
      case WeightType::kF16: out.weights[k] = read_half(block + at * 2); break;
      default:
        std::memcpy(&half, block + at * 2, 2);
        out.weights[k] = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
    }
  }
}

void read_integer_scales(const WeightLayout& layout, const std::byte* at, RowBlock& out) {
  const std::int32_t first = std::to_integer<std::int32_t>(at[0]);
  if (layout.integer_bytes == 1) {  // no minimum
    out.scale *= static_cast<float>(static_cast<std::int8_t>(first));
    return;
  }
  const std::int32_t second = std::to_integer<std::int32_t>(at[kRowGroup]);
  if (layout.form == BlockForm::kOneScale) {
    out.scale *= static_cast<float>(first);
    out.minimum = -(out.minimum * static_cast<float>(second));
  } else if (layout.minimum) {  // Q2_K
    out.scales[0] = first & 15;
    out.scales[1] = second & 15;
    out.minimums[0] = first >> 4;
    out.minimums[1] = second >> 4;
    out.minimum = -out.minimum;
  } else {
    out.scales[0] = static_cast<std::int8_t>(first);
    out.scales[1] = static_cast<std::int8_t>(second);
  }
}

// Block `b` of row `row` of a group.
RowBlock read_row_block(WeightType type, const std::byte* group, std::uint32_t b,
                        std::uint32_t row) {
  const WeightLayout layout = layout_of(type);
  const std::byte* header = group + b / layout.blocks * layout.super_bytes();
  const std::byte* block =
      header + layout.header_bytes() + b % layout.blocks * layout.block_bytes();
  RowBlock out;
  if (layout.form == BlockForm::kFloat) {
    read_floats(type, block, row, out);
    return out;
  }
  out.scale = layout.power ? power_scale(std::to_integer<std::uint32_t>(header[row]))
                           : read_half(header + row * 2) * power_of_two(-layout.fraction);
  if (layout.minimum) out.minimum = read_half(header + (kRowGroup + row) * 2);
  if (layout.integer_bytes != 0) read_integer_scales(layout, block + row, out);
  const std::byte* quants = block + kRowGroup * layout.integer_bytes + row * 4;
  const std::int8_t* codebook = codebook_of(type);
  for (std::uint32_t k = 0; k < kBlock; ++k) {
    const std::int32_t stored = stored_quant(layout.bits, quants, k);
    out.quants[k] = codebook != nullptr ? codebook[stored] : stored - layout.zero;
  }
  return out;
}

float float_product(const RowBlock& w, float row_factor, const std::int8_t* values, float scale) {
  float s = 0.0F;
  for (std::uint32_t k = 0; k < kBlock; ++k) {
    s = std::fma(w.weights[k] * row_factor, static_cast<float>(values[k]), s);
  }
  return s * scale;
}

// Grid steps of one block's product with token t.
std::int32_t block_product(const WeightLayout& layout, const RowBlock& w, float row_factor,
                           const QuantizedRows& x, std::uint32_t t, std::uint32_t block) {
  const std::size_t at = std::size_t{t} * (x.cols / kBlock) + block;
  const std::int8_t* values = x.values + at * kBlock;
  if (layout.form == BlockForm::kFloat) {
    return round_even(float_product(w, row_factor, values, x.scales[at]));
  }
  std::int32_t dot = 0;
  for (std::uint32_t half = 0; half < 2; ++half) {
    std::int32_t sum = 0;
    for (std::uint32_t k = half * 16; k < (half + 1) * 16; ++k) sum += w.quants[k] * values[k];
    dot += w.scales[half] * sum;
  }
  const float unit = (w.scale * row_factor) * x.scales[at];
  if (!layout.minimum) return round_even(unit * static_cast<float>(dot));
  float offset = x.sums[at];
  if (layout.form == BlockForm::kTwoScales) {
    std::int32_t low = 0;
    for (std::uint32_t k = 0; k < kBlock; ++k) low += w.minimums[k / 16] * values[k];
    offset = x.scales[at] * static_cast<float>(low);
  }
  return round_even(std::fma(unit, static_cast<float>(dot), (w.minimum * row_factor) * offset));
}

// sums[t] += grid steps of `row` with token t over blocks [begin, end).
void accumulate_row(const MatrixView& w, std::uint32_t row, const QuantizedRows& x,
                    std::uint32_t begin, std::uint32_t end, std::int32_t* sums,
                    std::size_t stride) {
  const WeightLayout layout = layout_of(w.type);
  const float row_factor = power_of_two(-w.exponents[row]);
  const std::byte* group = w.data + row / kRowGroup * w.group_bytes;
  for (std::uint32_t b = begin; b < end; ++b) {
    const RowBlock weights = read_row_block(w.type, group, b, row % kRowGroup);
    for (std::uint32_t t = 0; t < x.rows; ++t) {
      sums[t * stride] += block_product(layout, weights, row_factor, x, t, b);
    }
  }
}

std::uint32_t row_end(const MatrixView& w, std::uint32_t group_end) {
  const std::uint32_t end = group_end * kRowGroup;
  return end < w.rows ? end : w.rows;
}

}  // namespace

void matmul_partial(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
                    std::uint32_t group_end, std::uint32_t block_begin, std::uint32_t block_end,
                    std::int32_t* out, std::size_t out_stride) {
  const MatrixView view = view_of(w);
  check_product(view, x, group_begin, group_end, block_begin, block_end, out_stride);
  for (std::uint32_t r = group_begin * kRowGroup; r < row_end(view, group_end); ++r) {
    for (std::uint32_t t = 0; t < x.rows; ++t) out[t * out_stride + r] = 0;
    accumulate_row(view, r, x, block_begin, block_end, out + r, out_stride);
  }
}

void matmul(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
            std::uint32_t group_end, float* out, std::size_t out_stride) {
  const MatrixView view = view_of(w);
  check_product(view, x, group_begin, group_end, 0, view.blocks, out_stride);
  for (std::uint32_t r = group_begin * kRowGroup; r < row_end(view, group_end); ++r) {
    const float row_factor = power_of_two(view.exponents[r]);
    for (std::uint32_t t = 0; t < x.rows; t += kTokens) {
      const std::size_t at = std::size_t{t} * view.blocks;
      QuantizedRows some = x;
      some.rows = std::min(kTokens, x.rows - t);
      some.values += at * kBlock;
      some.scales += at;
      some.sums += at;
      std::int32_t sums[kTokens] = {};
      accumulate_row(view, r, some, 0, view.blocks, sums, 1);
      for (std::uint32_t i = 0; i < some.rows; ++i) {
        out[(t + i) * out_stride + r] = (static_cast<float>(sums[i]) * row_factor) *
                                        power_of_two(x.exponents[t + i] - kGridBits);
      }
    }
  }
}

void dequantize_row(const PackedMatrix& w, std::uint32_t row, float* out) {
  const MatrixView view = view_of(w);
  check_matrix_row(view, row);
  const WeightLayout layout = layout_of(view.type);
  const std::byte* group = view.data + row / kRowGroup * view.group_bytes;
  for (std::uint32_t b = 0; b < view.blocks; ++b) {
    const RowBlock block = read_row_block(view.type, group, b, row % kRowGroup);
    for (std::uint32_t k = 0; k < kBlock; ++k) {
      float& value = out[b * kBlock + k];
      if (layout.form == BlockForm::kFloat) {
        value = block.weights[k];
        continue;
      }
      const bool two = layout.form == BlockForm::kTwoScales;
      value = block.scale * static_cast<float>(block.scales[k / 16] * block.quants[k]);
      if (layout.minimum) {
        value += two ? block.minimum * static_cast<float>(block.minimums[k / 16]) : block.minimum;
      }
    }
  }
}

}  // namespace hearth::kernels::scalar

namespace hearth::kernels {

// The end of a product whose row was split between devices.
void grid_outputs(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
                  std::uint32_t group_end, const std::int32_t* sums, float* out,
                  std::size_t stride) {
  const MatrixView view = view_of(w);
  check_product(view, x, group_begin, group_end, 0, view.blocks, stride);
  const std::uint32_t end = std::min(w.rows(), group_end * kRowGroup);
  for (std::uint32_t t = 0; t < x.rows; ++t) {
    const float token_factor = power_of_two(x.exponents[t] - kGridBits);
    for (std::uint32_t r = group_begin * kRowGroup; r < end; ++r) {
      const std::size_t at = t * stride + r;
      const float row_factor = power_of_two(w.row_exponents()[r]);
      out[at] = (static_cast<float>(sums[at]) * row_factor) * token_factor;
    }
  }
}

}  // namespace hearth::kernels

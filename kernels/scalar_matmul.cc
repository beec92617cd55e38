// CANONICAL.md, "Weights" and "Matrix product", in code.
#include <cstring>

#include "kernels/elementary.h"
#include "kernels/matrix_view.h"
#include "kernels/scalar.h"

namespace hearth::kernels::scalar {
namespace {

// One row's share of one group block: w[k] = scale * quants[k] + minimum.
struct RowBlock {
  float scale = 0.0F;
  float minimum = 0.0F;
  std::int32_t quants[kBlock];
};

float read_scale(const std::byte* halves, std::uint32_t row) {
  std::uint16_t half = 0;
  std::memcpy(&half, halves + row * 2, 2);
  return half_to_float(half);
}

RowBlock read_row_block(WeightType type, const std::byte* block, std::uint32_t row) {
  RowBlock out;
  out.scale = read_scale(block, row);
  const std::byte* quants = block + kRowGroup * 2;
  if (type == WeightType::kQ4_1) {
    out.minimum = read_scale(quants, row);
    quants += kRowGroup * 2;
  }
  for (std::uint32_t k = 0; k < kBlock; ++k) {
    const std::uint32_t in_lane = row * 4 + k % 4;
    if (type == WeightType::kQ8_0) {
      out.quants[k] = std::to_integer<int>(quants[(k / 4) * 64 + in_lane]) - 128;
    } else {
      const int both = std::to_integer<int>(quants[(k / 4 % 4) * 64 + in_lane]);
      const int nibble = k < 16 ? both & 15 : both >> 4;
      out.quants[k] = type == WeightType::kQ4_0 ? nibble - 8 : nibble;
    }
  }
  return out;
}

// Grid steps of one block's product with token t.
std::int32_t block_product(WeightType type, const RowBlock& w, float row_factor,
                           const QuantizedRows& x, std::uint32_t t, std::uint32_t block) {
  const std::size_t at = std::size_t{t} * (x.cols / kBlock) + block;
  const std::int8_t* values = x.values + at * kBlock;
  std::int32_t dot = 0;
  for (std::uint32_t k = 0; k < kBlock; ++k) dot += w.quants[k] * values[k];
  const float unit = (w.scale * row_factor) * x.scales[at];
  const float product = type == WeightType::kQ4_1 ? std::fma(unit, static_cast<float>(dot),
                                                             (w.minimum * row_factor) * x.sums[at])
                                                  : unit * static_cast<float>(dot);
  return round_even(product);
}

// sums[t] += grid steps of `row` with token t over blocks [begin, end).
void accumulate_row(const MatrixView& w, std::uint32_t row, const QuantizedRows& x,
                    std::uint32_t begin, std::uint32_t end, std::int32_t* sums,
                    std::size_t stride) {
  const float row_factor = power_of_two(-w.exponents[row]);
  const std::byte* group = w.data + (row / kRowGroup) * w.block_bytes * w.blocks;
  for (std::uint32_t b = begin; b < end; ++b) {
    const RowBlock weights = read_row_block(w.type, group + b * w.block_bytes, row % kRowGroup);
    for (std::uint32_t t = 0; t < x.rows; ++t) {
      sums[t * stride] += block_product(w.type, weights, row_factor, x, t, b);
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
  for (std::uint32_t r = group_begin * kRowGroup; r < row_end(view, group_end); ++r) {
    for (std::uint32_t t = 0; t < x.rows; ++t) out[t * out_stride + r] = 0;
    accumulate_row(view, r, x, block_begin, block_end, out + r, out_stride);
  }
}

void matmul(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
            std::uint32_t group_end, float* out, std::size_t out_stride) {
  const MatrixView view = view_of(w);
  for (std::uint32_t r = group_begin * kRowGroup; r < row_end(view, group_end); ++r) {
    const float row_factor = power_of_two(view.exponents[r]);
    for (std::uint32_t t = 0; t < x.rows; ++t) {
      QuantizedRows one = x;
      const std::size_t at = std::size_t{t} * view.blocks;
      one.rows = 1;
      one.values += at * kBlock;
      one.scales += at;
      one.sums += at;
      std::int32_t sum = 0;
      accumulate_row(view, r, one, 0, view.blocks, &sum, 0);
      out[t * out_stride + r] =
          (static_cast<float>(sum) * row_factor) * power_of_two(x.exponents[t] - kGridBits);
    }
  }
}

void dequantize_row(const PackedMatrix& w, std::uint32_t row, float* out) {
  const MatrixView view = view_of(w);
  const std::byte* group = view.data + (row / kRowGroup) * view.block_bytes * view.blocks;
  for (std::uint32_t b = 0; b < view.blocks; ++b) {
    const RowBlock block = read_row_block(view.type, group + b * view.block_bytes, row % kRowGroup);
    for (std::uint32_t k = 0; k < kBlock; ++k) {
      const float scaled = block.scale * static_cast<float>(block.quants[k]);
      out[b * kBlock + k] = view.type == WeightType::kQ4_1 ? scaled + block.minimum : scaled;
    }
  }
}

}  // namespace hearth::kernels::scalar

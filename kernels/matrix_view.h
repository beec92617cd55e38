// What the tables read of a PackedMatrix and of a KV page. Plain data filled by functions compiled
// once, so that no inline code of a class is compiled for an instruction set of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth::kernels {

// One group block: 16 scales (fp16), for Q4_1 16 minima (fp16), then the quants of 16 rows x 32
// columns. With k a column of the block and r a row of the group:
//   Q4_*: byte (k / 4 % 4) * 64 + r * 4 + k % 4, low half for k < 16, high half for k >= 16;
//   Q8_0: byte (k / 4) * 64 + r * 4 + k % 4, holding q + 128.
struct MatrixView {
  WeightType type;
  std::uint32_t rows;
  std::uint32_t groups;
  std::uint32_t blocks;  // of a row
  std::size_t block_bytes;
  const std::byte* data;
  const std::int32_t* exponents;
};
MatrixView view_of(const PackedMatrix& matrix);

// A kv head's part of a page. With s a slot, d a dimension:
//   keys    byte ((s / 16) * (head_dim / 4) + d / 4) * 64 + (s % 16) * 4 + d % 4, holding k + 128;
//   key_scales    [(s / 16) * (head_dim / 32) + d / 32] * 16 + s % 16;
//   values  byte ((s / 4) * head_dim + d) * 4 + s % 4;
//   value_scales  [s].
struct PageOffsets {
  std::size_t head_bytes;
  std::size_t key_scales;
  std::size_t values;
  std::size_t value_scales;
};
PageOffsets page_offsets(std::uint32_t head_dim);

// Head blocks and dimensions that a kernel may keep on its stack.
inline constexpr std::uint32_t kHeadDimMax = 512;

}  // namespace hearth::kernels

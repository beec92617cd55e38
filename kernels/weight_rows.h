// Rows of a weight matrix as a file has them, for every packed layout: shape checks, refused values
// and the row exponent of CANONICAL.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "kernels/file_block.h"
#include "kernels/matrix_view.h"

namespace hearth::kernels {

// kInvalidInput when there are no rows or columns, when columns are not a multiple of the type's
// block, or when the size does not match.
Status check_weight_shape(WeightType type, std::uint32_t rows, std::uint32_t cols);
Status check_weight_bytes(WeightType type, std::uint32_t rows, std::uint32_t cols,
                          std::size_t bytes);
// kInvalidInput, with the reason why super-block `block` of row `row` is refused.
Error refused_weight(WeightType type, std::uint32_t row, std::uint32_t block);

// The exponent B of a row of a type with this layout whose sum of |weights| is so many units of
// 2^-24 (2^-(24 + fraction) where its scales are fractions), and of one of `cols` floating weights
// of which `largest` is the largest magnitude.
std::int32_t quantised_exponent(const WeightLayout& layout, unsigned __int128 units);
std::int32_t floating_exponent(float largest, std::uint32_t cols);

// The exponent B of one row: begin a super-block with `add`, then, for quantised types, hand in
// each of its blocks.
class RowMagnitude {
 public:
  explicit RowMagnitude(WeightType type) : type_(type), layout_(layout_of(type)) {}
  // False when a scale or a floating weight of the super-block is refused.
  bool add(const std::byte* file);
  void add(const FileBlock& block);
  std::int32_t exponent(std::uint32_t cols) const;

 private:
  WeightType type_;
  WeightLayout layout_;
  unsigned __int128 units_ = 0;  // of 2^-24, or of 2^-(24 + fraction)
  std::uint64_t d_ = 0;          // of the super-block, in these units
  std::uint64_t m_ = 0;
  std::uint32_t power_ = 0;  // of a block whose scale is a power of two
  float largest_ = 0.0F;     // of floating weights
};

}  // namespace hearth::kernels

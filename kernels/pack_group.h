// Packing sixteen whole rows at once, compiled for AVX2: the same bytes as PackedMatrix's own rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/canonical.h"

namespace hearth::kernels {

// The source of a row's exponent: the sum of |weights| of a quantised row, in
// quantised_exponent()'s units; the largest magnitude of a floating one.
struct RowBound {
  unsigned __int128 units = 0;
  float largest = 0.0F;
};

// Rows `row_bytes` apart at `file` into a group at `packed`. False when some scale or weight is
// refused; the group then holds no meaning.
bool avx2_pack_group(WeightType type, std::uint32_t cols, const std::byte* file,
                     std::size_t row_bytes, std::byte* packed, RowBound bounds[kRowGroup]);

}  // namespace hearth::kernels

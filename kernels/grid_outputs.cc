// The end of a product whose row was split between devices.
#include <algorithm>

#include "kernels/elementary.h"
#include "kernels/kernels.h"
#include "kernels/preconditions.h"

namespace hearth::kernels {

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

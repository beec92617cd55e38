// The matrix product's sums and entries over the vectors of the instruction set that the file is
// compiled for. The file that includes this one names the namespace of its entries as
// HEARTH_ENTRIES and defines run(). Internal linkage throughout, but for the entries.
#pragma once

#include "kernels/simd/vectors.h"

#if defined(HEARTH_ENTRIES)
#include "kernels/matrix_view.h"
#include "kernels/preconditions.h"

namespace hearth::kernels {
namespace {

// The sum over blocks, one row a lane. tests/bench compiles this file with a plain float sum in its
// place, to show the cost of sums that do not depend on the order.
#ifndef HEARTH_PLAIN_FLOAT_SUM
using Sum = Ints;  // grid steps

inline Sum plus(Sum sum, Floats unit, Floats dot) { return add_ints(sum, to_steps(unit * dot)); }
inline Sum plus(Sum sum, Floats unit, Floats dot, Floats minimum, Floats offset) {
  return add_ints(sum, to_steps(fused(unit, dot, minimum * offset)));
}
inline Floats value_of(Sum sum) { return to_floats(sum); }
inline Ints steps_of(Sum sum) { return sum; }
#else
using Sum = Floats;

inline Sum plus(Sum sum, Floats unit, Floats dot) { return fused(unit, dot, sum); }
inline Sum plus(Sum sum, Floats unit, Floats dot, Floats minimum, Floats offset) {
  return fused(unit, dot, fused(minimum, offset, sum));
}
inline Floats value_of(Sum sum) { return sum; }
inline Ints steps_of(Sum sum) { return reinterpret_cast<Ints>(sum); }
#endif

// Blocks of a row, or groups of rows.
struct Range {
  std::uint32_t begin;
  std::uint32_t end;
};

// The destination of the sums of one tile: rounded outputs, or the sums themselves.
struct Output {
  float* values;
  std::int32_t* partial;  // when values is null
  std::size_t stride;
};

inline void store(const MatrixView& w, const QuantizedRows& x, std::uint32_t row, std::uint32_t t,
                  const Output& out, Sum sum) {
  const std::uint32_t count = w.rows - row < kLanes ? w.rows - row : kLanes;
  const std::size_t at = t * out.stride + row;
  if (out.values == nullptr) return store_first(count, out.partial + at, steps_of(sum));
  const Floats row_factor = powers_of_two(w.exponents + row);
  const Floats token_factor = splat(power_of_two(x.exponents[t] - kGridBits));
  store_first(count, out.values + at, value_of(sum) * row_factor * token_factor);
}

template <WeightType type>
void run(const MatrixView& w, const QuantizedRows& x, Range groups, Range range, const Output& out);

void dispatch(const MatrixView& w, const QuantizedRows& x, Range groups, Range range,
              const Output& out) {
  using enum WeightType;
  using Run = void (*)(const MatrixView&, const QuantizedRows&, Range, Range, const Output&);
  static constexpr Run kRuns[kWeightTypes] = {
      // in the order of WeightType
      run<kF32>,   run<kF16>,     run<kBF16>,   run<kQ8_0>,   run<kQ4_0>,
      run<kQ4_1>,  run<kQ5_0>,    run<kQ5_1>,   run<kIQ4_NL>, run<kQ2_K>,
      run<kQ3_K>,  run<kQ4_K>,    run<kQ5_K>,   run<kQ6_K>,   run<kIQ4_XS>,
      run<kMXFP4>, run<kIQ2_XXS>, run<kIQ2_XS>, run<kIQ2_S>,  run<kIQ3_XXS>,
      run<kIQ3_S>, run<kIQ1_S>,   run<kIQ1_M>,  run<kTQ1_0>,  run<kTQ2_0>};
  check_product(w, x, groups.begin, groups.end, range.begin, range.end, out.stride);
  kRuns[static_cast<std::size_t>(w.type)](w, x, groups, range, out);
}

}  // namespace

namespace HEARTH_ENTRIES {

void matmul(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
            std::uint32_t group_end, float* out, std::size_t out_stride) {
  const MatrixView view = view_of(w);
  dispatch(view, x, {group_begin, group_end}, {0, view.blocks}, {out, nullptr, out_stride});
}

void matmul_partial(const PackedMatrix& w, const QuantizedRows& x, std::uint32_t group_begin,
                    std::uint32_t group_end, std::uint32_t block_begin, std::uint32_t block_end,
                    std::int32_t* out, std::size_t out_stride) {
  dispatch(view_of(w), x, {group_begin, group_end}, {block_begin, block_end},
           {nullptr, out, out_stride});
}

}  // namespace HEARTH_ENTRIES
}  // namespace hearth::kernels
#endif

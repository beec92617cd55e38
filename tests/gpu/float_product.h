// The product's kernels with the epilogue that other engines have, to time the exact one against:
// the sum of each block of 32 columns is added as a float, in any order, where the product rounds
// it to the grid and adds integers. For benchmarks alone: no two cards need agree on these numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/product.h"

namespace hearth::gpu {

// Whether there is such a kernel: one row of x, or more than 32, of the types that are timed.
bool has_float_product(kernels::WeightType type, std::uint32_t tokens);

// out (x.rows, w.rows) of has_float_product; `space` as for the product, zero before and after.
// Null, or what the card says.
const char* run_float_product(const kernels::cuda::CardMatrix& w, const kernels::QuantizedRows& x,
                              float* out, const kernels::cuda::ProductSpace& space,
                              kernels::cuda::Stream stream);

}  // namespace hearth::gpu

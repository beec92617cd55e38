// The tables, one an instruction set; select.cc decides which may run.
#pragma once

#include <type_traits>

#include "kernels/kernels.h"

namespace hearth::kernels {

// The function type of an entry: Entry<decltype(Kernels::matmul)> matmul; declares one.
template <typename Pointer>
using Entry = std::remove_pointer_t<Pointer>;

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;
extern const Kernels kDotprodKernels;
extern const Kernels kI8mmKernels;

// AVX2, FMA and F16C.
bool runs_avx2();

}  // namespace hearth::kernels

// The tables, one an instruction set; select.cc decides which may run.
#pragma once

#include "kernels/kernels.h"

namespace hearth::kernels {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512Kernels;

// AVX2, FMA and F16C.
bool runs_avx2();

}  // namespace hearth::kernels

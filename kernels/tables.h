// The tables, one an instruction set; select.cc decides which may run.
#pragma once

#include "kernels/kernels.h"

namespace hearth::kernels {

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512Kernels;

}  // namespace hearth::kernels

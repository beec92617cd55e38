// The text of prelude.cl, which stands before that of every kernel. A test that defines prelude()
// itself gives the kernels another one.
#pragma once

namespace hearth::kernels::cuda::opencl {

const char* prelude();

}  // namespace hearth::kernels::cuda::opencl

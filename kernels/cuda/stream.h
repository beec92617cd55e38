// A CUDA stream, named without CUDA: what a cudaStream_t points to.
#pragma once

struct CUstream_st;

namespace hearth::kernels::cuda {

using Stream = CUstream_st*;

}  // namespace hearth::kernels::cuda

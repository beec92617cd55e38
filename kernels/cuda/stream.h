// Streams, events and graphs of a card, named without CUDA: what a cudaStream_t, a cudaEvent_t and
// a cudaGraphExec_t point to.
#pragma once

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace hearth::kernels::cuda {

using Stream = CUstream_st*;
using Event = CUevent_st*;
using Graph = CUgraphExec_st*;

}  // namespace hearth::kernels::cuda

// The integer peak of a card, measured by a kernel that does nothing else; and a kernel that does
// nothing, for the cost of a launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/stream.h"

namespace hearth::gpu {

// Operations (a multiplication and an addition are two) of one run, and the numbers that it writes.
double peak_operations(unsigned blocks, unsigned rounds);
std::size_t peak_outputs(unsigned blocks);
// Null, or what the card says.
const char* run_peak(std::int32_t* out, unsigned blocks, unsigned rounds,
                     kernels::cuda::Stream stream);
// Null, or what the card says. `early`: by launch_early().
const char* run_nothing(bool early, kernels::cuda::Stream stream);

}  // namespace hearth::gpu

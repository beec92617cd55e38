// The rate at which this machine reads weights, for placement.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/kernels.h"

namespace hearth::node {

// Bytes of packed weights a second that `threads` threads multiply by one row of activations, with
// the real kernel, over a matrix larger than common caches. Takes about a tenth of a second.
Result<double> measure_weight_rate(const kernels::Kernels& kernels, std::uint32_t threads);

}  // namespace hearth::node

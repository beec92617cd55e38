// The gated delta net (CANONICAL.md, section 8a; Yang et al., arXiv 2412.06464): a sequence keeps a
// matrix for each value head, which every position decays, corrects and reads. These are the parts
// that the tables have in common; each has its own silu, multiply_sigmoid and delta_step.
//
// Functions allocate nothing; one thread a call.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace hearth::kernels {

// Whether a position's row (shape.channels()) may be kept: it is finite and not too large.
bool is_delta_row(const DeltaShape& shape, const float* row);

// The sums of the convolution, before silu, of a position over rows (shape.taps), the oldest first,
// its own the last; null: before position 0. weights: (channels, taps). out: (channels). False when
// a sum is not finite.
bool short_convolution(const DeltaShape& shape, const float* const* rows, const float* weights,
                       float* out);

// Of a head with the decay `a`; false when b or t is not finite.
bool delta_numbers(float a, float b, float t, DeltaNumbers& out);

}  // namespace hearth::kernels

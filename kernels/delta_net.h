// The gated delta net (CANONICAL.md, section 8a; Yang et al., arXiv 2412.06464): a sequence keeps a
// matrix for each value head, which every position decays, corrects and reads. Plain arithmetic
// that gives the same bits beside every kernel table: all loops go over columns.
//
// Functions allocate nothing; one thread a call.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace hearth::kernels {

// Whether a position's row (shape.channels()) may be kept: it is finite and not too large.
bool is_delta_row(const DeltaShape& shape, const float* row);

// The convolution of a position over rows (shape.taps), the oldest first, its own the last; null:
// before position 0. weights: (channels, taps). out: (channels). False when a sum is not finite;
// `out` then holds no meaning.
bool short_convolution(const DeltaShape& shape, const float* const* rows, const float* weights,
                       float* out);

struct DeltaNumbers {
  float beta = 0.0F;   // of what is corrected
  float decay = 0.0F;  // of all that the state holds
};
// Of a head with the decay `a`; false when b or t is not finite.
bool delta_numbers(float a, float b, float t, DeltaNumbers& out);

// One position of one head of n values.
struct DeltaStep {
  const float* query = nullptr;  // (n), normed and scaled
  const float* key = nullptr;    // (n), normed
  const float* value = nullptr;  // (n)
  DeltaNumbers numbers;
  float* state = nullptr;  // (n, n): key, value
  float* out = nullptr;    // (n)
};
void delta_step(std::uint32_t n, const DeltaStep& step);

// x[i] * silu(gate[i]), in place.
void multiply_silu(float* x, const float* gate, std::uint32_t n);
// x[i] times the sigmoid of gate[i], in place. False when a gate is not finite.
bool multiply_sigmoid(float* x, const float* gate, std::uint32_t n);

}  // namespace hearth::kernels

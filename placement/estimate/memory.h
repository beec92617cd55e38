// Bytes of weights, and of KV in Hearth's own layout of a KV page (kernels/CANONICAL.md).
#pragma once

#include "placement/estimate/figures.h"

namespace hearth::placement {

double weight_bytes(double parameters, double bits);

// Of one position in one layer, in 8 bits: a value a byte, a 32-bit scale for each 32 values of a
// key, and one for each value vector.
double kv_bytes_int8(const Shape& shape);

}  // namespace hearth::placement

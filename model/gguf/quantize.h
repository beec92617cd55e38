// Rows of floats to the block types of GGUF files, plainly: for synthetic models, and as a second
// opinion in tests. The engine never calls these; its own unpacking is in kernels/.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

// To nearest, ties to even; beyond the range to infinity.
std::uint16_t half_from_float(float value);
float float_from_half(std::uint16_t half);

// Bytes of a row of `elements` in this type.
std::uint64_t row_bytes(TensorType type, std::uint64_t elements);

// F32, F16, BF16, Q8_0, Q4_0, Q4_1, MXFP4; kUnsupported names any other. Values are rounded to the
// nearest code (ties to even) of the scale as it is stored. Sizes must match: row_bytes(type,
// row.size()).
Status quantize_row(TensorType type, std::span<const float> row, MutableByteSpan out);

}  // namespace hearth::model

// One row's block of 32 weights taken out of a file's super-block: CANONICAL.md, "Weights".
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/canonical.h"

namespace hearth::kernels {

// Quants as they are stored in a PackedMatrix (q + zero): byte i of quads[g] is column 4 g + i.
struct FileBlock {
  std::uint32_t quads[kBlock / 4];
  std::uint8_t scales[2];    // integer scales s, or S[0] and S[1], as bytes
  std::uint8_t minimums[2];  // integer minima t, or T[0] and T[1]
};

// Block `b` of the super-block at `file`; b is 0 for types without super-blocks. Not for floating
// weights.
FileBlock read_file_block(WeightType type, const std::byte* file, std::uint32_t b);

}  // namespace hearth::kernels

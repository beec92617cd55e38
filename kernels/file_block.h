// One row's block of 32 weights taken out of a file's super-block: CANONICAL.md, "Weights".
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/canonical.h"

namespace hearth::kernels {

// Integer scales of a block of 32: s, or S[0] and S[1], as bytes, and t, or T[0] and T[1].
struct BlockScales {
  std::uint8_t scales[2];
  std::uint8_t minimums[2];
};

// The fp16 number d whose place in the file is `at`. In IQ1_M it is in the highest four bits of
// four uint16, the lowest bits first. Internal linkage, as below.
static inline std::uint16_t read_d(WeightType type, const std::byte* at) {
  const auto byte = [at](std::uint32_t i) { return std::to_integer<std::uint32_t>(at[i]); };
  if (type != WeightType::kIQ1_M) return static_cast<std::uint16_t>(byte(0) | byte(1) << 8);
  return static_cast<std::uint16_t>(byte(1) >> 4 | (byte(3) >> 4) << 4 | (byte(5) >> 4) << 8 |
                                    (byte(7) >> 4) << 12);
}

// The scales of block `b` of a super-block with integer scales at `file`; zeros for other types.
// Internal linkage: also compiled for one instruction set.
static inline BlockScales read_block_scales(WeightType type, const std::byte* file,
                                            std::uint32_t b) {
  const auto at = [](const std::byte* bytes, std::uint32_t i) {
    return std::to_integer<std::uint32_t>(bytes[i]);
  };
  const auto byte = [](std::uint32_t value) { return static_cast<std::uint8_t>(value); };
  BlockScales out{};
  if (type == WeightType::kQ4_K || type == WeightType::kQ5_K) {
    const std::byte* c = file + 4;  // eight pairs of 6 bits
    if (b < 4) {
      out.scales[0] = byte(at(c, b) & 63U);
      out.minimums[0] = byte(at(c, b + 4) & 63U);
    } else {
      const std::uint32_t mixed = at(c, b + 4);
      out.scales[0] = byte((mixed & 15U) | (at(c, b - 4) >> 6 << 4));
      out.minimums[0] = byte((mixed >> 4) | (at(c, b) >> 6 << 4));
    }
  } else if (type == WeightType::kIQ4_XS) {
    const std::uint32_t low = (at(file + 4, b / 2) >> (b % 2 * 4)) & 15U;
    const std::uint32_t high = ((at(file, 2) | at(file, 3) << 8) >> (2 * b)) & 3U;
    out.scales[0] = byte((low | high << 4) - 32U);
  } else if (type == WeightType::kIQ2_XXS) {
    out.scales[0] = byte(at(file, 9 + 8 * b) >> 4 << 1 | 1U);
  } else if (type == WeightType::kIQ3_XXS) {
    out.scales[0] = byte(at(file, 69 + 4 * b) >> 4 << 1 | 1U);
  } else if (type == WeightType::kIQ3_S) {
    out.scales[0] = byte((at(file, 106 + b / 2) >> (b % 2 * 4) & 15U) << 1 | 1U);
  } else if (type == WeightType::kIQ1_S) {
    out.scales[0] = byte((at(file, 35 + 2 * b) >> 4 & 7U) << 1 | 1U);
  } else {
    for (std::uint32_t r = 0; r < 2; ++r) {
      const std::uint32_t e = 2 * b + r;
      if (type == WeightType::kQ2_K) {
        out.scales[r] = byte(at(file, e) & 15U);
        out.minimums[r] = byte(at(file, e) >> 4);
      } else if (type == WeightType::kQ3_K) {
        const std::byte* scales = file + 96;
        const std::uint32_t low = e < 8 ? at(scales, e) & 15U : at(scales, e - 8) >> 4;
        const std::uint32_t high = (at(scales, 8 + e % 4) >> (e / 4 * 2)) & 3U;
        out.scales[r] = byte((low | high << 4) - 32U);
      } else if (type == WeightType::kQ6_K) {
        out.scales[r] = byte(at(file + 192, e));
      } else if (type == WeightType::kIQ2_XS || type == WeightType::kIQ2_S) {
        const std::byte* scales = file + (type == WeightType::kIQ2_XS ? 66 : 74);
        out.scales[r] = byte((at(scales, b) >> (4 * r) & 15U) << 1 | 1U);
      } else if (type == WeightType::kIQ1_M) {
        const std::byte* four = file + 48 + b / 2 * 2;  // scales of three bits
        const std::uint32_t bits = at(four, 0) | at(four, 1) << 8;
        out.scales[r] = byte((bits >> (3 * (e % 4)) & 7U) << 1 | 1U);
      }
    }
  }
  return out;
}

// Quants as they are stored in a PackedMatrix (q + zero, or an index of the codebook): byte i of
// quads[g] is column 4 g + i.
struct FileBlock {
  std::uint32_t quads[kBlock / 4];
  BlockScales integers;
};

// Block `b` of the super-block at `file`; b is 0 for types without super-blocks. Not for floating
// weights.
FileBlock read_file_block(WeightType type, const std::byte* file, std::uint32_t b);

// The quants of read_file_block() for a type whose weights are entries of a grid.
void read_grid_block(WeightType type, const std::byte* file, std::uint32_t b, FileBlock& out);

// The share 2^(e - 128) * magnitudes of a block in the sum of its row's |weights|, in units of
// 2^-24 and rounded up to one; e at most kPowerMax. Internal linkage, as above.
static inline unsigned __int128 power_units(std::uint32_t e, std::uint32_t magnitudes) {
  constexpr std::uint32_t kOne = 128 - 24;  // the byte of a scale of one unit
  if (e >= kOne) return static_cast<unsigned __int128>(magnitudes) << (e - kOne);
  const std::uint32_t shift = kOne - e < 32 ? kOne - e : 32;
  return (magnitudes + (std::uint64_t{1} << shift) - 1) >> shift;
}

}  // namespace hearth::kernels

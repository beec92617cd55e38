#include "kernels/file_block.h"

#include <cstring>

#include "kernels/matrix_view.h"

namespace hearth::kernels {
namespace {

constexpr std::uint32_t kNibbles = 0x0F0F0F0FU;
constexpr std::uint32_t kPairs = 0x03030303U;
constexpr std::uint32_t kSingles = 0x01010101U;

std::uint32_t word(const std::byte* at) {
  std::uint32_t four = 0;
  std::memcpy(&four, at, 4);
  return four;
}

// 16 bytes of nibbles: column k low in byte k, column k + 16 high in it.
void split_nibbles(const std::byte* at, FileBlock& out) {
  for (std::uint32_t g = 0; g < 4; ++g) {
    const std::uint32_t both = word(at + 4 * g);
    out.quads[g] = both & kNibbles;
    out.quads[g + 4] = (both >> 4) & kNibbles;
  }
}

// 32 bytes, `mask << shift` of each.
void take_bits(const std::byte* at, std::uint32_t shift, std::uint32_t mask, FileBlock& out) {
  for (std::uint32_t g = 0; g < 8; ++g) out.quads[g] = (word(at + 4 * g) >> shift) & mask;
}

// Adds the bits of 32 more bytes above the `low` bits that are there.
void add_bits(const std::byte* at, std::uint32_t shift, std::uint32_t mask, std::uint32_t low,
              FileBlock& out) {
  for (std::uint32_t g = 0; g < 8; ++g) {
    out.quads[g] |= ((word(at + 4 * g) >> shift) & mask) << low;
  }
}

// Bit k of 32 becomes the fifth bit of column k.
void add_fifth_bits(std::uint32_t bits, FileBlock& out) {
  for (std::uint32_t g = 0; g < 8; ++g) {
    const std::uint32_t four = (bits >> (4 * g)) & 15U;
    out.quads[g] |= ((four * 0x00204081U) & kSingles) << 4;  // bit i to byte i
  }
}

void read_q6_k(const std::byte* file, std::uint32_t b, FileBlock& out) {
  const std::uint32_t half = b / 4;
  const std::uint32_t c = b % 4;
  take_bits(file + 64 * half + 32 * (c % 2), c / 2 * 4, kNibbles, out);
  add_bits(file + 128 + 32 * half, 2 * c, kPairs, 4, out);
}

// Base-3 digits: a byte times a power of three has its digit in the highest bits.
void read_tq1_0(const std::byte* file, std::uint32_t b, FileBlock& out) {
  constexpr std::uint32_t kPowers[5] = {1, 3, 9, 27, 81};
  for (std::uint32_t k = 0; k < kBlock; ++k) {
    const std::uint32_t i = kBlock * b + k;
    std::uint32_t at = i % 32;
    std::uint32_t digit = i / 32;
    if (i >= 160) {
      at = 32 + i % 16;
      digit = (i - 160) / 16;
    }
    if (i >= 240) {
      at = 48 + i % 4;
      digit = (i - 240) / 4;
    }
    const std::uint32_t moved = std::to_integer<std::uint32_t>(file[at]) * kPowers[digit] & 0xFFU;
    out.quads[k / 4] |= moved * 3 >> 8 << (k % 4 * 8);
  }
}

}  // namespace

FileBlock read_file_block(WeightType type, const std::byte* file, std::uint32_t b) {
  FileBlock out{};
  out.integers = read_block_scales(type, file, b);
  switch (type) {
    case WeightType::kQ8_0:
      for (std::uint32_t g = 0; g < 8; ++g) out.quads[g] = word(file + 2 + 4 * g) ^ 0x80808080U;
      break;
    case WeightType::kQ4_0:
    case WeightType::kIQ4_NL: split_nibbles(file + 2, out); break;
    case WeightType::kQ4_1: split_nibbles(file + 4, out); break;
    case WeightType::kQ5_0:
      split_nibbles(file + 6, out);
      add_fifth_bits(word(file + 2), out);
      break;
    case WeightType::kQ5_1:
      split_nibbles(file + 8, out);
      add_fifth_bits(word(file + 4), out);
      break;
    case WeightType::kQ4_K: take_bits(file + 16 + b / 2 * 32, b % 2 * 4, kNibbles, out); break;
    case WeightType::kQ5_K:
      take_bits(file + 48 + b / 2 * 32, b % 2 * 4, kNibbles, out);
      add_bits(file + 16, b, kSingles, 4, out);
      break;
    case WeightType::kQ2_K: take_bits(file + 16 + b / 4 * 32, b % 4 * 2, kPairs, out); break;
    case WeightType::kQ3_K:
      take_bits(file + 32 + b / 4 * 32, b % 4 * 2, kPairs, out);
      add_bits(file, b, kSingles, 2, out);
      break;
    case WeightType::kQ6_K: read_q6_k(file, b, out); break;
    case WeightType::kIQ4_XS: split_nibbles(file + 8 + 16 * b, out); break;
    case WeightType::kMXFP4: split_nibbles(file + 1, out); break;
    case WeightType::kTQ1_0: read_tq1_0(file, b, out); break;
    case WeightType::kTQ2_0: take_bits(file + b / 4 * 32, b % 4 * 2, kPairs, out); break;
    case WeightType::kIQ2_XXS:
    case WeightType::kIQ2_XS:
    case WeightType::kIQ2_S:
    case WeightType::kIQ3_XXS:
    case WeightType::kIQ3_S:
    case WeightType::kIQ1_S:
    case WeightType::kIQ1_M: read_grid_block(type, file, b, out); break;
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16: break;
  }
  return out;
}

}  // namespace hearth::kernels

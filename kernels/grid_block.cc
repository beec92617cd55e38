// Weights that a file names in groups, by entries of a grid: CANONICAL.md, "Weights".
#include <bit>
#include <cstdint>

#include "kernels/file_block.h"

namespace hearth::kernels {
namespace {

#include "kernels/grids.inc"

std::uint32_t byte_at(const std::byte* at, std::uint32_t i) {
  return std::to_integer<std::uint32_t>(at[i]);
}

std::uint32_t short_at(const std::byte* at, std::uint32_t i) {
  return byte_at(at, 2 * i) | byte_at(at, 2 * i + 1) << 8;
}

std::uint32_t word_at(const std::byte* at) { return short_at(at, 0) | short_at(at, 1) << 16; }

// Extends the signs of 7 weights to 8 so that an even number is set.
std::uint32_t even_signs(std::uint32_t seven) {
  return seven | (static_cast<std::uint32_t>(std::popcount(seven)) & 1U) << 7;
}

// Bit i of 8 to the lowest one of byte i.
std::uint64_t spread_bits(std::uint32_t bits) {
  const std::uint64_t each = bits * 0x0101010101010101U & 0x8040201008040201U;
  return (each + 0x7F7F7F7F7F7F7F7FU) >> 7 & 0x0101010101010101U;
}

// Eight indices of 2 bits to bytes.
std::uint64_t spread_pairs(std::uint64_t entry) {
  entry = (entry | entry << 24) & 0x000000FF000000FFU;
  entry = (entry | entry << 12) & 0x000F000F000F000FU;
  return (entry | entry << 6) & 0x0303030303030303U;
}

// Four indices of 3 bits to bytes.
std::uint32_t spread_triples(std::uint32_t entry) {
  entry = (entry | entry << 10) & 0x003F003FU;
  return (entry | entry << 5) & 0x07070707U;
}

// Group g of 8 weights, of an entry with indices of 2 bits: what the signs set is added above them.
void put_eight(std::uint32_t entry, std::uint32_t signs, std::uint32_t g, FileBlock& out) {
  const std::uint64_t eight = spread_pairs(entry) | spread_bits(signs) << 2;
  out.quads[2 * g] = static_cast<std::uint32_t>(eight);
  out.quads[2 * g + 1] = static_cast<std::uint32_t>(eight >> 32);
}

// The same of two entries with indices of 3 bits.
void put_fours(std::uint32_t first, std::uint32_t second, std::uint32_t signs, std::uint32_t g,
               FileBlock& out) {
  const std::uint64_t eight = spread_bits(signs) << 3;
  out.quads[2 * g] = spread_triples(first) | static_cast<std::uint32_t>(eight);
  out.quads[2 * g + 1] = spread_triples(second) | static_cast<std::uint32_t>(eight >> 32);
}

void read_iq2(WeightType type, const std::byte* file, std::uint32_t b, FileBlock& out) {
  for (std::uint32_t g = 0; g < 4; ++g) {
    if (type == WeightType::kIQ2_XXS) {
      const std::byte* block = file + 2 + 8 * b;
      const std::uint32_t signs = word_at(block + 4) >> (7 * g) & 127U;
      put_eight(kGridIQ2_XXS[byte_at(block, g)], even_signs(signs), g, out);
    } else if (type == WeightType::kIQ2_XS) {
      const std::uint32_t both = short_at(file + 2, 4 * b + g);
      put_eight(kGridIQ2_XS[both & 511U], even_signs(both >> 9), g, out);
    } else {
      const std::uint32_t high = byte_at(file + 66, b) >> (2 * g) & 3U;
      const std::uint32_t entry = byte_at(file + 2, 4 * b + g) | high << 8;
      put_eight(kGridIQ2_S[entry], byte_at(file + 34, 4 * b + g), g, out);
    }
  }
}

void read_iq3(WeightType type, const std::byte* file, std::uint32_t b, FileBlock& out) {
  const std::byte* entries = file + 2 + 8 * b;
  const std::uint32_t high = byte_at(file + 66, b);
  for (std::uint32_t g = 0; g < 4; ++g) {
    const std::uint32_t first = byte_at(entries, 2 * g);
    const std::uint32_t second = byte_at(entries, 2 * g + 1);
    if (type == WeightType::kIQ3_XXS) {
      const std::uint32_t signs = word_at(file + 66 + 4 * b) >> (7 * g) & 127U;
      put_fours(kGridIQ3_XXS[first], kGridIQ3_XXS[second], even_signs(signs), g, out);
    } else {
      const std::uint32_t two = high >> (2 * g);
      put_fours(kGridIQ3_S[first | (two & 1U) << 8], kGridIQ3_S[second | (two & 2U) << 7],
                byte_at(file + 74, 4 * b + g), g, out);
    }
  }
}

// The signs are those of the eighth that is added to a group.
void read_iq1(WeightType type, const std::byte* file, std::uint32_t b, FileBlock& out) {
  for (std::uint32_t g = 0; g < 4; ++g) {
    if (type == WeightType::kIQ1_S) {
      const std::uint32_t bits = short_at(file + 34, b);
      const std::uint32_t entry = byte_at(file + 2, 4 * b + g) | (bits >> (3 * g) & 7U) << 8;
      put_eight(kGridIQ1[entry], bits >= 0x8000U ? 0xFFU : 0U, g, out);
    } else {
      const std::uint32_t bits = byte_at(file + 32, 2 * b + g / 2) >> (g % 2 * 4);
      const std::uint32_t entry = byte_at(file, 4 * b + g) | (bits & 7U) << 8;
      put_eight(kGridIQ1[entry], (bits & 8U) != 0 ? 0xFFU : 0U, g, out);
    }
  }
}

}  // namespace

void read_grid_block(WeightType type, const std::byte* file, std::uint32_t b, FileBlock& out) {
  switch (type) {
    case WeightType::kIQ3_XXS:
    case WeightType::kIQ3_S: return read_iq3(type, file, b, out);
    case WeightType::kIQ1_S:
    case WeightType::kIQ1_M: return read_iq1(type, file, b, out);
    default: return read_iq2(type, file, b, out);
  }
}

}  // namespace hearth::kernels

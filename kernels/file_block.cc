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

std::uint8_t byte_at(const std::byte* at, std::uint32_t i) {
  return std::to_integer<std::uint8_t>(at[i]);
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

// The eight pairs of 6-bit scales and minima of Q4_K and Q5_K.
void read_scale_minimum(const std::byte* c, std::uint32_t b, FileBlock& out) {
  if (b < 4) {
    out.scales[0] = byte_at(c, b) & 63U;
    out.minimums[0] = byte_at(c, b + 4) & 63U;
  } else {
    const unsigned mixed = byte_at(c, b + 4);
    out.scales[0] = static_cast<std::uint8_t>((mixed & 15U) | (byte_at(c, b - 4) >> 6 << 4));
    out.minimums[0] = static_cast<std::uint8_t>((mixed >> 4) | (byte_at(c, b) >> 6 << 4));
  }
}

void read_q2_k(const std::byte* file, std::uint32_t b, FileBlock& out) {
  take_bits(file + 16 + b / 4 * 32, b % 4 * 2, kPairs, out);
  for (std::uint32_t r = 0; r < 2; ++r) {
    out.scales[r] = byte_at(file, 2 * b + r) & 15U;
    out.minimums[r] = byte_at(file, 2 * b + r) >> 4;
  }
}

void read_q3_k(const std::byte* file, std::uint32_t b, FileBlock& out) {
  take_bits(file + 32 + b / 4 * 32, b % 4 * 2, kPairs, out);
  add_bits(file, b, kSingles, 2, out);
  const std::byte* scales = file + 96;
  for (std::uint32_t r = 0; r < 2; ++r) {
    const std::uint32_t e = 2 * b + r;
    const unsigned low = e < 8 ? byte_at(scales, e) & 15U : byte_at(scales, e - 8) >> 4;
    const unsigned high = (byte_at(scales, 8 + e % 4) >> (e / 4 * 2)) & 3U;
    out.scales[r] = static_cast<std::uint8_t>((low | (high << 4)) - 32U);
  }
}

void read_q6_k(const std::byte* file, std::uint32_t b, FileBlock& out) {
  const std::uint32_t half = b / 4;
  const std::uint32_t c = b % 4;
  take_bits(file + 64 * half + 32 * (c % 2), c / 2 * 4, kNibbles, out);
  add_bits(file + 128 + 32 * half, 2 * c, kPairs, 4, out);
  for (std::uint32_t r = 0; r < 2; ++r) out.scales[r] = byte_at(file + 192, 2 * b + r);
}

void read_iq4_xs(const std::byte* file, std::uint32_t b, FileBlock& out) {
  split_nibbles(file + 8 + 16 * b, out);
  const unsigned low = (byte_at(file + 4, b / 2) >> (b % 2 * 4)) & 15U;
  const unsigned high = ((byte_at(file, 2) | (byte_at(file, 3) << 8)) >> (2 * b)) & 3U;
  out.scales[0] = static_cast<std::uint8_t>((low | (high << 4)) - 32U);
}

}  // namespace

FileBlock read_file_block(WeightType type, const std::byte* file, std::uint32_t b) {
  FileBlock out{};
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
    case WeightType::kQ4_K:
      take_bits(file + 16 + b / 2 * 32, b % 2 * 4, kNibbles, out);
      read_scale_minimum(file + 4, b, out);
      break;
    case WeightType::kQ5_K:
      take_bits(file + 48 + b / 2 * 32, b % 2 * 4, kNibbles, out);
      add_bits(file + 16, b, kSingles, 4, out);
      read_scale_minimum(file + 4, b, out);
      break;
    case WeightType::kQ2_K: read_q2_k(file, b, out); break;
    case WeightType::kQ3_K: read_q3_k(file, b, out); break;
    case WeightType::kQ6_K: read_q6_k(file, b, out); break;
    case WeightType::kIQ4_XS: read_iq4_xs(file, b, out); break;
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16: break;
  }
  return out;
}

}  // namespace hearth::kernels

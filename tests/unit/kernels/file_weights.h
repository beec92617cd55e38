// The value of one weight of a GGUF tensor, read bit by bit from the file's bytes in double
// precision and with nothing of ours: the second opinion on unpacking.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "kernels/kernels.h"
#include "tests/unit/kernels/grid_weights.h"

namespace hearth::kernels::fixtures {

inline int byte_of(const std::byte* at, std::size_t i) { return std::to_integer<int>(at[i]); }
inline int signed_byte_of(const std::byte* at, std::size_t i) {
  const int byte = byte_of(at, i);
  return byte < 128 ? byte : byte - 256;
}

// fp16 by its definition.
inline double half_value(int half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}
inline double half_at(const std::byte* at) {
  return half_value(byte_of(at, 0) | byte_of(at, 1) << 8);
}

struct FileWeight {
  double product = 0;  // scales times quant
  double minimum = 0;  // what is added to it
  double value() const { return product + minimum; }
  double bound() const { return std::abs(product) + std::abs(minimum); }
};

inline FileWeight small_block_weight(WeightType type, const std::byte* block, int k) {
  constexpr int kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
  const auto nibble = [&](int offset) {
    const int byte = byte_of(block, static_cast<std::size_t>(offset + k % 16));
    return k < 16 ? byte % 16 : byte / 16;
  };
  const auto fifth = [&](int offset) {
    return byte_of(block, static_cast<std::size_t>(offset + k / 8)) >> (k % 8) & 1;
  };
  const double d = half_at(block);
  switch (type) {
    case WeightType::kQ8_0: return {d * signed_byte_of(block, 2 + static_cast<std::size_t>(k)), 0};
    case WeightType::kQ4_0: return {d * (nibble(2) - 8), 0};
    case WeightType::kQ4_1: return {d * nibble(4), half_at(block + 2)};
    case WeightType::kQ5_0: return {d * (nibble(6) + 16 * fifth(2) - 16), 0};
    case WeightType::kQ5_1: return {d * (nibble(8) + 16 * fifth(4)), half_at(block + 2)};
    case WeightType::kMXFP4: {  // E8M0 times E2M1: sign, two bits of exponent, one of mantissa
      const int code = nibble(1);
      const int exponent = code >> 1 & 3;
      const double magnitude =
          exponent == 0 ? (code & 1) * 0.5 : std::ldexp(1 + (code & 1) * 0.5, exponent - 1);
      return {std::ldexp((code & 8) != 0 ? -magnitude : magnitude, byte_of(block, 0) - 127), 0};
    }
    default: return {d * kValues[nibble(2)], 0};  // IQ4_NL
  }
}

inline FileWeight k_type_weight(WeightType type, const std::byte* block, int i) {
  const int sub = i / 32;  // of 8
  const int run = i / 16;  // of 16
  const int half = i / 128;
  const auto at = [&](int offset) { return byte_of(block, static_cast<std::size_t>(offset)); };
  const auto pair = [&](int offset) {  // 2 bits, 4 sub-blocks of 32 share 32 bytes
    return at(offset + 32 * half + i % 32) >> (2 * (sub % 4)) & 3;
  };
  if (type == WeightType::kQ2_K) {
    return {half_at(block + 80) * (at(run) & 15) * pair(16), -half_at(block + 82) * (at(run) >> 4)};
  }
  if (type == WeightType::kQ3_K) {
    const int low = run < 8 ? at(96 + run) & 15 : at(96 + run - 8) >> 4;
    const int scale = (low | (at(104 + run % 4) >> (2 * (run / 4)) & 3) << 4) - 32;
    const int q = pair(32) - ((at(i % 32) >> sub & 1) != 0 ? 0 : 4);
    return {half_at(block + 108) * scale * q, 0};
  }
  if (type == WeightType::kQ6_K) {
    const int low = at(64 * half + i % 64) >> (i % 128 < 64 ? 0 : 4) & 15;
    const int scale = signed_byte_of(block, static_cast<std::size_t>(192 + run));
    return {half_at(block + 208) * scale * ((low | pair(128) << 4) - 32), 0};
  }
  if (type == WeightType::kIQ4_XS) {
    const int low = at(4 + sub / 2) >> (sub % 2 * 4) & 15;
    const int high = (at(2) | at(3) << 8) >> (2 * sub) & 3;
    const std::byte* quants = block + 8 + 16 * sub - 2;  // as an IQ4_NL block from its quants on
    const FileWeight unit = [&] {
      std::byte one[18] = {std::byte{0x00}, std::byte{0x3C}};  // d = 1
      for (int b = 2; b < 18; ++b) one[b] = quants[b];
      return small_block_weight(WeightType::kIQ4_NL, one, i % 32);
    }();
    return {half_at(block) * ((low | high << 4) - 32) * unit.product, 0};
  }
  const std::byte* c = block + 4;  // Q4_K and Q5_K
  const int scale =
      sub < 4 ? byte_of(c, sub) & 63 : (byte_of(c, sub + 4) & 15) | byte_of(c, sub - 4) >> 6 << 4;
  const int minimum =
      sub < 4 ? byte_of(c, sub + 4) & 63 : byte_of(c, sub + 4) >> 4 | byte_of(c, sub) >> 6 << 4;
  const bool five = type == WeightType::kQ5_K;
  int q = at((five ? 48 : 16) + sub / 2 * 32 + i % 32) >> (sub % 2 * 4) & 15;
  if (five) q |= (at(16 + i % 32) >> sub & 1) << 4;
  return {half_at(block) * scale * q, -half_at(block + 2) * minimum};
}

// Weight `column` of the row whose bytes begin at `row`.
inline FileWeight file_weight(WeightType type, const std::byte* row, std::uint32_t column) {
  if (type == WeightType::kF32) {
    std::uint32_t bits = 0;
    for (int i = 3; i >= 0; --i) {
      bits = bits << 8 | static_cast<std::uint32_t>(byte_of(row, column * 4 + i));
    }
    return {std::bit_cast<float>(bits), 0};
  }
  if (type == WeightType::kF16) return {half_at(row + column * 2), 0};
  if (type == WeightType::kBF16) {
    const auto bits =
        static_cast<std::uint32_t>(byte_of(row, column * 2) | byte_of(row, column * 2 + 1) << 8);
    return {std::bit_cast<float>(bits << 16), 0};
  }
  const std::uint32_t columns = PackedMatrix::file_block_columns(type);
  const std::byte* block = row + column / columns * PackedMatrix::file_block_bytes(type);
  const int i = static_cast<int>(column % columns);
  if (type >= WeightType::kIQ2_XXS) {
    return {half_value(grid_scale(type, block)) * grid_weight(type, block, i), 0};
  }
  return columns == 32 ? small_block_weight(type, block, i) : k_type_weight(type, block, i);
}

}  // namespace hearth::kernels::fixtures

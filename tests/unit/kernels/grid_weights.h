// The value of one weight of the GGUF types that name weights by entries of a grid, and of the two
// ternary ones: what file_weights.h is for the other types. The tables of entries are the format's;
// tests/oracle compares them with the Python package's.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hearth::kernels::fixtures {

namespace grids {
#include "kernels/grids.inc"
}  // namespace grids

// A super-block of 256 weights and the place of one of them.
struct GridPlace {
  const std::byte* block;
  int i;

  int byte(int at) const { return std::to_integer<int>(block[at]); }
  int two(int at) const { return byte(at) | byte(at + 1) << 8; }
  int sub() const { return i / 32; }
  int eight() const { return i / 8; }
  int run() const { return i / 16; }
  // Of the 7 signs in `bits` and the eighth that makes them even; -1 or 1.
  int even_sign(int bits) const {
    const bool last = std::popcount(static_cast<unsigned>(bits)) % 2 != 0;
    const bool minus = i % 8 == 7 ? last : (bits >> (i % 8) & 1) != 0;
    return minus ? -1 : 1;
  }
  int sign(int at) const { return (byte(at + eight()) >> (i % 8) & 1) != 0 ? -1 : 1; }
  // Bits 7 n to 7 n + 6 of 32 at `at`, n the group of 8 in its block of 32.
  int seven_bits(int at) const {
    const auto low = static_cast<unsigned>(two(at));
    const unsigned word = low | static_cast<unsigned>(two(at + 2)) << 16;
    return static_cast<int>(word >> (7 * (eight() % 4)) & 127U);
  }
  int nibble(int at, int index) const { return byte(at + index / 2) >> (index % 2 * 4) & 15; }
  int of_eight(int entry) const { return entry >> (2 * (i % 8)) & 3; }
  int of_four(int entry) const { return entry >> (3 * (i % 4)) & 7; }
};

// The weight for d = 1.
inline double iq2_weight(WeightType type, const GridPlace& at) {
  constexpr int kValues[] = {8, 25, 43};
  if (type == WeightType::kIQ2_XXS) {
    const int signs = at.seven_bits(2 + 8 * at.sub() + 4);
    const int entry = grids::kGridIQ2_XXS[at.byte(2 + 8 * at.sub() + at.eight() % 4)];
    const int scale = at.byte(2 + 8 * at.sub() + 7) >> 4;
    return at.even_sign(signs) * kValues[at.of_eight(entry)] * (0.5 + scale) * 0.25;
  }
  if (type == WeightType::kIQ2_XS) {
    const int both = at.two(2 + 2 * at.eight());
    const int value = kValues[at.of_eight(grids::kGridIQ2_XS[both % 512])];
    return at.even_sign(both / 512) * value * (0.5 + at.nibble(66, at.run())) * 0.25;
  }
  const int high = at.byte(66 + at.sub()) >> (2 * (at.eight() % 4)) & 3;
  const int value = kValues[at.of_eight(grids::kGridIQ2_S[at.byte(2 + at.eight()) + 256 * high])];
  return at.sign(34) * value * (0.5 + at.nibble(74, at.run())) * 0.25;
}

inline double iq3_weight(WeightType type, const GridPlace& at) {
  const int entry = at.byte(2 + at.i / 4);
  if (type == WeightType::kIQ3_XXS) {
    constexpr int kValues[] = {4, 12, 20, 28, 36, 44, 52, 62};
    const int value = kValues[at.of_four(grids::kGridIQ3_XXS[entry])];
    const int scale = at.byte(66 + 4 * at.sub() + 3) >> 4;
    return at.even_sign(at.seven_bits(66 + 4 * at.sub())) * value * (0.5 + scale) * 0.5;
  }
  const int ninth = at.byte(66 + at.sub()) >> (at.i / 4 % 8) & 1;
  const int value = 1 + 2 * at.of_four(grids::kGridIQ3_S[entry + 256 * ninth]);
  return at.sign(74) * value * (1 + 2 * at.nibble(106, at.sub()));
}

inline double iq1_weight(WeightType type, const GridPlace& at) {
  const int part = at.eight() % 4;
  if (type == WeightType::kIQ1_S) {
    const int bits = at.two(34 + 2 * at.sub());
    const int entry = at.byte(2 + at.eight()) + 256 * (bits >> (3 * part) & 7);
    const double delta = (bits & 0x8000) != 0 ? -0.125 : 0.125;
    return (2 * (bits >> 12 & 7) + 1) * (at.of_eight(grids::kGridIQ1[entry]) - 1 + delta);
  }
  const int bits = at.nibble(32, at.eight());
  const int entry = at.byte(at.eight()) + 256 * (bits & 7);
  const double delta = (bits & 8) != 0 ? -0.125 : 0.125;
  const int scale = at.two(48 + at.run() / 4 * 2) >> (3 * (at.run() % 4)) & 7;
  return (2 * scale + 1) * (at.of_eight(grids::kGridIQ1[entry]) - 1 + delta);
}

inline double ternary_weight(WeightType type, const GridPlace& at) {
  if (type == WeightType::kTQ2_0) {
    return (at.byte(at.i / 128 * 32 + at.i % 32) >> (2 * (at.sub() % 4)) & 3) - 1;
  }
  int byte = at.byte(at.i % 32);
  int digit = at.i / 32;
  if (at.i >= 160) {
    byte = at.byte(32 + (at.i - 160) % 16);
    digit = (at.i - 160) / 16;
  }
  if (at.i >= 240) {
    byte = at.byte(48 + (at.i - 240) % 4);
    digit = (at.i - 240) / 4;
  }
  for (int i = 0; i < digit; ++i) byte = byte * 3 % 256;
  return byte * 3 / 256 - 1;
}

inline double grid_weight(WeightType type, const std::byte* block, int i) {
  const GridPlace at{block, i};
  switch (type) {
    case WeightType::kIQ3_XXS:
    case WeightType::kIQ3_S: return iq3_weight(type, at);
    case WeightType::kIQ1_S:
    case WeightType::kIQ1_M: return iq1_weight(type, at);
    case WeightType::kTQ1_0:
    case WeightType::kTQ2_0: return ternary_weight(type, at);
    default: return iq2_weight(type, at);
  }
}

// d, as a half.
inline int grid_scale(WeightType type, const std::byte* block) {
  const GridPlace at{block, 0};
  switch (type) {
    case WeightType::kIQ1_M:
      return at.two(48) >> 12 | at.two(50) >> 12 << 4 | at.two(52) >> 12 << 8 |
             at.two(54) >> 12 << 12;
    case WeightType::kTQ1_0: return at.two(52);
    case WeightType::kTQ2_0: return at.two(64);
    default: return at.two(0);
  }
}

}  // namespace hearth::kernels::fixtures

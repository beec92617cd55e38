// The numbers of the sampler (CANONICAL.md, "Sampler"), one value at a time, for host and device.
#pragma once

#include <cstdint>

#include "kernels/elementary.h"

namespace hearth::kernels {

static constexpr std::uint64_t kWeightUnits = 41ULL << 48;  // a distance this far weighs nothing
static constexpr std::uint64_t kTopPOff = 1ULL << 32;

// 2^-y for y in [0, 1), both in 2^-30 units: a polynomial of degree 6, every step rounded down.
HEARTH_SHARED static constexpr std::uint64_t exp2_polynomial(std::uint64_t y) {
  constexpr std::uint64_t kOne30 = 1ULL << 30;
  std::uint64_t sum = 118043;
  sum = 1371676 - ((sum * y) >> 30);
  sum = 10288824 - ((sum * y) >> 30);
  sum = 59584400 - ((sum * y) >> 30);
  sum = 257939319 - ((sum * y) >> 30);
  sum = 744261020 - ((sum * y) >> 30);
  return kOne30 - ((sum * y) >> 30);
}

// 2^-(x * 2^-20) in 2^-40 units; 0 from 41 on.
HEARTH_SHARED static inline std::uint64_t weight_at(std::uint64_t x) {
  const std::uint64_t whole = x >> 20;
  if (whole > 40) return 0;
  const std::uint64_t high = exp2_polynomial((x >> 10 & 1023) << 20);
  const std::uint64_t low = exp2_polynomial((x & 1023) << 10);
  return (((high * low) >> 30) << 10) >> whole;
}

// The high half of the product.
HEARTH_SHARED static inline std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = a & 0xFFFFFFFFU;
  const std::uint64_t a1 = a >> 32;
  const std::uint64_t b0 = b & 0xFFFFFFFFU;
  const std::uint64_t b1 = b >> 32;
  const std::uint64_t middle = ((a0 * b0) >> 32) + (a1 * b0 & 0xFFFFFFFFU) + a0 * b1;
  return a1 * b1 + (a1 * b0 >> 32) + (middle >> 32);
}

// max(1, ceil(total * share / 2^32)), for a share below 2^32.
HEARTH_SHARED static inline std::uint64_t share_of(std::uint64_t total, std::uint64_t share) {
  const std::uint64_t low = ((total & 0xFFFFFFFFU) * share + 0xFFFFFFFFU) >> 32;
  const std::uint64_t all = (total >> 32) * share + low;
  return all == 0 ? 1 : all;
}

// Philox4x32-10 (Salmon et al. 2011); both arrays are changed.
HEARTH_SHARED static inline void philox_rounds(std::uint32_t (&c)[4], std::uint32_t (&key)[2]) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
    const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
    c[0] = high(b) ^ c[1] ^ key[0];
    c[1] = static_cast<std::uint32_t>(b);
    c[2] = high(a) ^ c[3] ^ key[1];
    c[3] = static_cast<std::uint32_t>(a);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
}

// The 64 random bits of one position.
HEARTH_SHARED static inline std::uint64_t random_of(std::uint64_t seed, std::uint32_t position) {
  std::uint32_t counter[4] = {position, 0, 0, 0};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  philox_rounds(counter, key);
  return std::uint64_t{counter[1]} << 32 | counter[0];
}

}  // namespace hearth::kernels

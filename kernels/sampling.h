// The numbers of the sampler (CANONICAL.md, "Sampler"), one value at a time, for host and device.
#pragma once

#include <bit>
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

// Philox4x32-10 (Salmon et al. 2011) is so many rounds, with the next key after each.
static constexpr int kPhiloxRounds = 10;
HEARTH_SHARED static inline void philox_round(std::uint32_t (&c)[4],
                                              const std::uint32_t (&key)[2]) {
  const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
  const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
  c[0] = static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0];
  c[1] = static_cast<std::uint32_t>(b);
  c[2] = static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1];
  c[3] = static_cast<std::uint32_t>(a);
}
HEARTH_SHARED static inline void philox_next_key(std::uint32_t (&key)[2]) {
  key[0] += 0x9E3779B9;
  key[1] += 0xBB67AE85;
}
HEARTH_SHARED static inline void philox_rounds(std::uint32_t (&c)[4], std::uint32_t (&key)[2]) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    philox_round(c, key);
    philox_next_key(key);
  }
}

// The random words of the tokens 4 * group to 4 * group + 3 at one position.
HEARTH_SHARED static inline void race_words(std::uint64_t seed, std::uint32_t position,
                                            std::uint32_t group, std::uint32_t (&words)[4]) {
  words[0] = position;
  words[1] = group;
  words[2] = 0;
  words[3] = 0;
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  philox_rounds(words, key);
}

// A random word as an exponential of base 2: its whole part, and the rest in 2^-32 units, which the
// polynomial of race_time() bends.
struct RaceWord {
  std::uint32_t whole;
  std::uint32_t rest;
};
HEARTH_SHARED static inline RaceWord race_word(std::uint32_t word) {
  const auto whole = static_cast<std::uint32_t>(std::countl_zero(word | 1U));
  return {whole, word << whole << 1 | 1U << whole};
}

// Where the weight of a token is 2^-(x * 2^-20): 2^whole, and the rest as weight_at() has it.
struct RaceSlowness {
  std::uint32_t whole;
  std::uint32_t rest;  // in 2^-20 units, below 2^20
};
HEARTH_SHARED static inline RaceSlowness race_slowness(std::uint32_t x) {
  const std::uint32_t whole = (x + 0xFFFFFU) >> 20;
  return {whole, (whole << 20) - x};
}

// When a token arrives: an exponential of base 2, times what the token is slower than the best one.
// `slowness` is 2^(x * 2^-20): an integer of at most 31 bits times a power of two.
HEARTH_SHARED static inline double race_time(RaceWord word, double slowness) {
  std::int64_t sum = 7010891;
  const std::int64_t rest = word.rest;
  sum = -12538354 + ((sum * rest) >> 32);
  sum = 18264364 + ((sum * rest) >> 32);
  sum = 2340956 + ((sum * rest) >> 32);
  sum = 26186944 + ((sum * rest) >> 32);
  sum = 64288226 + ((sum * rest) >> 32);
  sum = 193647710 + ((sum * rest) >> 32);
  sum = 774540904 + ((sum * rest) >> 32);
  const double part = static_cast<double>(sum * rest) * 0x1p-62;
  return (static_cast<double>(word.whole) + part) * slowness;
}

// Below race_time() with the same word and slowness, by far more than fp32 rounds.
HEARTH_SHARED static inline float race_least(RaceWord word, float slowness) {
  const float straight = static_cast<float>(word.whole) + static_cast<float>(word.rest) * 0x1p-32F;
  return straight * 0.72F * slowness;
}

}  // namespace hearth::kernels

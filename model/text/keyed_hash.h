// Hashing for tables that are built from a file: the key is drawn at load, so a file cannot choose
// entries that collide.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace hearth::model {

inline constexpr std::uint64_t kHashOdd = 0x9E3779B97F4A7C15U;

inline std::uint64_t hash_fold(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_word(std::uint64_t word, std::uint64_t seed) {
  return hash_fold(hash_fold(word ^ seed, kHashOdd), seed | 1U);
}

inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  std::uint64_t state = hash_fold(seed ^ text.size(), kHashOdd);
  for (std::size_t at = 0; at < text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min<std::size_t>(8, text.size() - at));
    state = hash_fold(state ^ word, seed | 1U) + kHashOdd;
  }
  return hash_fold(state, kHashOdd);
}

}  // namespace hearth::model

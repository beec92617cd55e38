// Arithmetic on sizes that a file chose: every step says whether it still fits.
#pragma once

#include <cstdint>

namespace hearth::model {

// False, and the value untouched, when the result leaves 64 bits.
[[nodiscard]] inline bool checked_multiply(std::uint64_t& value, std::uint64_t factor) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(value, factor, &product)) return false;
  value = product;
  return true;
}

[[nodiscard]] inline bool checked_add(std::uint64_t& value, std::uint64_t term) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(value, term, &sum)) return false;
  value = sum;
  return true;
}

// Up to the next multiple of alignment, a power of two.
[[nodiscard]] inline bool checked_align(std::uint64_t& value, std::uint64_t alignment) {
  if (!checked_add(value, alignment - 1)) return false;
  value &= ~(alignment - 1);
  return true;
}

}  // namespace hearth::model

#include "base/random.h"

#include "base/crypto.h"

namespace hearth {

std::uint64_t SystemRandom::next() {
  std::uint64_t value = 0;
  random_bytes({reinterpret_cast<std::byte*>(&value), sizeof(value)});
  return value;
}

std::uint64_t SeededRandom::next() {
  state_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace hearth

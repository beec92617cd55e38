// Random: one of the four seams. Ids, jitter and seeds come from here; the sampler's numbers do
// not: they are a pure function of seed and position (node/engine/sampler.h).
#pragma once

#include <cstdint>

namespace hearth {

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;  // 64 uniform bits
};

// From the operating system, through libsodium. Thread-safe.
class SystemRandom final : public Random {
 public:
  std::uint64_t next() override;
};

// SplitMix64 (Steele, Lea, Flood 2014): the same seed gives the same numbers everywhere.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() override;

 private:
  std::uint64_t state_;
};

}  // namespace hearth

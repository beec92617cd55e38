// The last rates of a swarm, for a line of hearth top. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace hearth::cli {

class RateHistory {
 public:
  static constexpr std::size_t kReadings = 48;  // fits into 80 columns

  // Tokens a second. What is not finite or below 0 counts as 0.
  void add(double rate);
  // One block a reading, the oldest first, in heights of the largest one: "▁▄█▁  at most 30.5".
  // Empty before the second reading.
  std::string line() const;

 private:
  std::array<double, kReadings> rates_{};
  std::size_t added_ = 0;
};

}  // namespace hearth::cli

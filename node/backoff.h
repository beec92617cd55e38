// Backoff: pauses between attempts to dial, doubling from 0.1 s to 2 s, each shortened at random by
// up to half, so that many workers do not reconnect at the same moment.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/random.h"

namespace hearth::node {

class Backoff {
 public:
  explicit Backoff(Random& random) : random_(random) {}

  Duration next() {
    const auto half = static_cast<std::uint64_t>(pause_.count() / 2);
    const Duration pause(static_cast<std::int64_t>(half + random_.next() % (half + 1)));
    pause_ = std::min(pause_ * 2, kLongest);
    return pause;
  }
  void reset() { pause_ = kShortest; }

 private:
  static constexpr Duration kShortest = std::chrono::milliseconds(100);
  static constexpr Duration kLongest = std::chrono::seconds(2);

  Random& random_;
  Duration pause_ = kShortest;
};

}  // namespace hearth::node

// PipelinePace: the mean time between two tokens of a sequence on one pipeline, over all sequences
// that run there, in constant memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace hearth::coordinator {

class PipelinePace {
 public:
  // A token came this long after the previous one of its sequence, while `running` sequences ran.
  // The mean is exponential: a token has a weight of one sixteenth.
  void token(Duration waited, std::uint32_t running, TimePoint now) {
    const double seconds = std::max(0.0, std::chrono::duration<double>(waited).count());
    const double sequences = std::max(running, 1U);
    const double weight = measured_ ? kWeight : 1.0;
    seconds_ += weight * (seconds - seconds_);
    running_ += weight * (sequences - running_);
    measured_ = true;
    last_ = now;
  }

  // Expected seconds a token with one more sequence, in proportion to the sequences at the
  // measurement. That overestimates when a batch costs little more than a row; later measurements
  // correct it. Nothing before the first token.
  std::optional<double> with_one_more(std::uint32_t running) const {
    if (!measured_) return std::nullopt;
    return seconds_ * (running + 1.0) / running_;
  }

  TimePoint last() const { return last_; }  // token

 private:
  static constexpr double kWeight = 1.0 / 16;
  bool measured_ = false;
  double seconds_ = 0.0;
  double running_ = 1.0;
  TimePoint last_{};
};

}  // namespace hearth::coordinator

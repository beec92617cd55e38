// CounterRate: the growth rate of a counter that is reported now and then, over the last 5 s, in
// constant memory.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "base/clock.h"

namespace hearth::coordinator {

class CounterRate {
 public:
  // A value below the previous one, or NaN, starts again.
  void report(TimePoint now, double value) {
    if (!std::isfinite(value) || value < last_.value) kept_ = 0;
    last_ = {now, value};
    if (!std::isfinite(value)) return;
    if (kept_ == 0 || now - sample(kept_ - 1).at >= kSpacing) keep(last_);
  }

  // 0 before the second report, and when reports have stopped.
  double per_second(TimePoint now) const {
    if (kept_ == 0 || now - last_.at > kWindow) return 0.0;
    std::size_t first = 0;
    while (first + 1 < kept_ && last_.at - sample(first).at > kWindow) ++first;
    const double seconds = std::chrono::duration<double>(last_.at - sample(first).at).count();
    return seconds > 0.0 ? (last_.value - sample(first).value) / seconds : 0.0;
  }

 private:
  struct Sample {
    TimePoint at{};
    double value = 0.0;
  };
  static constexpr Duration kWindow = std::chrono::seconds(5);
  static constexpr Duration kSpacing = std::chrono::milliseconds(500);

  const Sample& sample(std::size_t i) const { return samples_[(begin_ + i) % samples_.size()]; }
  void keep(const Sample& sample) {
    if (kept_ == 0) begin_ = 0;
    if (kept_ < samples_.size()) {
      samples_[(begin_ + kept_++) % samples_.size()] = sample;
      return;
    }
    samples_[begin_] = sample;
    begin_ = (begin_ + 1) % samples_.size();
  }

  std::array<Sample, 12> samples_;  // the window's samples, and one at either end
  std::size_t begin_ = 0;
  std::size_t kept_ = 0;
  Sample last_;
};

}  // namespace hearth::coordinator

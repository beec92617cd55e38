// CounterRate: how fast a counter grows that somebody else keeps and reports now and then, over the
// last five seconds, in constant memory.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "base/clock.h"

namespace hearth::coordinator {

class CounterRate {
 public:
  // A value that is smaller than the one before begins anew; so does one that is no number.
  void report(TimePoint now, double value) {
    if (!std::isfinite(value) || value < last_.value) kept_ = 0;
    last_ = {now, value};
    if (!std::isfinite(value)) return;
    if (kept_ == 0 || now - sample(kept_ - 1).at >= kSpacing) keep(last_);
  }

  // 0 before there are two reports, and when they have stopped.
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

  std::array<Sample, 12> samples_;  // a window of them at their spacing, and one at either end
  std::size_t begin_ = 0;
  std::size_t kept_ = 0;
  Sample last_;
};

}  // namespace hearth::coordinator

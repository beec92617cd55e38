// StepPace: compares the time of a stage's steps with its earlier steps of as many rows, in
// constant memory.
//
// The time of a step is its computing plus the delay in handling arriving frames: foreign load, a
// stopped process and a lowered clock look alike from outside.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "base/clock.h"

namespace hearth::coordinator {

class StepPace {
 public:
  struct Totals {  // of a heartbeat
    std::uint64_t steps = 0;
    std::uint64_t rows = 0;
    double busy_seconds = 0.0;
    double lateness = 0.0;  // seconds, since the last one
  };

  void report(TimePoint now, const Totals& totals) {
    const bool usable = std::isfinite(totals.busy_seconds) && std::isfinite(totals.lateness) &&
                        totals.lateness >= 0.0;
    const bool grows = totals.steps >= steps_seen_ && totals.rows >= first_.rows &&
                       totals.busy_seconds >= first_.busy_seconds;
    if (!usable) return reset();
    if (!begun_ || !grows) {
      begun_ = true;
      begin_ = now;
      first_ = totals;
      steps_seen_ = totals.steps;
      late_ = 0.0;
      beats_ = 0;
      return;
    }
    if (totals.steps > steps_seen_) {
      late_ += totals.lateness;
      ++beats_;
    }
    steps_seen_ = totals.steps;
    if (totals.steps - first_.steps >= kSteps && now - begin_ >= kWindow) close(now, totals);
  }

  void reset() { *this = StepPace(); }  // for other layers

  // The factor by which steps are slower than usual, in two consecutive windows of at least 1 s and
  // eight steps each. 1 when they are not slower, when the difference is a few milliseconds, or
  // when it is unknown.
  double slowness() const { return slowness_; }

 private:
  void close(TimePoint now, const Totals& totals) {
    INVARIANT(totals.steps > first_.steps && totals.rows >= first_.rows,
              "a window has steps, and its counters grow");
    const auto steps = static_cast<double>(totals.steps - first_.steps);
    const double computing = (totals.busy_seconds - first_.busy_seconds) / steps;
    const double seconds = computing + late_ / std::max(beats_, 1U);
    const auto size = static_cast<std::size_t>(
        std::bit_width((totals.rows - first_.rows) / (totals.steps - first_.steps)));
    double& usual = usual_[std::min(size, kSizes - 1)];
    const bool is_slow = usual > 0.0 && seconds - usual >= kNoise;
    const double times = is_slow ? seconds / usual : 1.0;
    // The time of a step grows with the length of its sequences.
    if (!is_slow) usual = usual == 0.0 ? seconds : std::min(seconds, kGrowth * usual);
    slowness_ = std::min(last_, times);
    last_ = times;
    begin_ = now;
    first_ = totals;
    late_ = 0.0;
    beats_ = 0;
  }

  static constexpr Duration kWindow = std::chrono::seconds(1);
  static constexpr std::uint64_t kSteps = 8;
  // Wake-ups on a busy machine are late by some milliseconds now and then.
  static constexpr double kNoise = 0.015;
  static constexpr double kGrowth = 1.03;    // allowed growth a window
  static constexpr std::size_t kSizes = 24;  // of a step: powers of two rows
  bool begun_ = false;
  TimePoint begin_{};
  Totals first_;
  std::uint64_t steps_seen_ = 0;
  double late_ = 0.0;  // the sum over heartbeats in which there were steps
  std::uint32_t beats_ = 0;
  std::array<double, kSizes> usual_{};  // seconds; 0: not measured yet
  double last_ = 1.0;
  double slowness_ = 1.0;
};

}  // namespace hearth::coordinator

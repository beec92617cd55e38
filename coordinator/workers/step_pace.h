// StepPace: how long a stage's steps take beside what steps of as many rows have taken it before,
// in constant memory.
//
// What a step takes is its computing and how late the machine hears what arrives: a processor that
// others have, a stopped process and a clock that was turned down look alike from outside.
#pragma once

#include <array>
#include <cstdint>

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

  void report(TimePoint now, const Totals& totals);
  void reset() { *this = StepPace(); }  // other layers

  // So many times as long as usual in two windows of at least a second and eight steps each, one
  // after the other; 1 where it is not, or is by a few milliseconds, or it is unknown.
  double slowness() const { return slowness_; }

 private:
  void close(TimePoint now, const Totals& totals);

  static constexpr std::size_t kSizes = 24;  // of a step: powers of two rows
  bool begun_ = false;
  TimePoint begin_{};
  Totals first_;
  std::uint64_t steps_seen_ = 0;
  double late_ = 0.0;  // the sum over heartbeats in which there were steps
  std::uint32_t beats_ = 0;
  std::array<double, kSizes> usual_{};  // seconds; 0: nothing yet
  double last_ = 1.0;
  double slowness_ = 1.0;
};

}  // namespace hearth::coordinator

// StageFigures: the figures that a stage sends with each heartbeat: steps, rows, seconds of
// computing, the time of a round through the pipeline, and how late this process handles arriving
// frames.
//
// Main thread.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "proto/control.pb.h"

namespace hearth::node {

class StageFigures {
 public:
  explicit StageFigures(const Clock& clock);

  // Measures how late the timer runs: a process without processor time handles frames late.
  void on_timer();
  // A step goes to the StageCompute and returns from it. Steps of any epoch count as busy time.
  void step_begins();
  void step_ends();
  // A step that rank 0 of the group gave out, without step_begins() and step_ends().
  void count_followed(Duration took) { busy_ += took; }
  void count_rows(std::uint64_t computed, std::uint64_t replayed);
  // Counts a step of the first stage, answered after `time`.
  void count_round(Duration time);
  void count_late_frame() { ++late_frames_; }

  std::uint64_t late_frames() const { return late_frames_; }
  std::uint64_t replayed_rows() const { return replayed_rows_; }
  // Fills in the totals; lateness is of the time since the last call.
  void fill(control::v1::Heartbeat& heartbeat);

 private:
  const Clock& clock_;
  std::uint32_t outstanding_ = 0;  // steps at the StageCompute
  TimePoint busy_since_{};
  Duration busy_{};
  std::uint64_t steps_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t replayed_rows_ = 0;
  std::uint64_t late_frames_ = 0;
  std::uint64_t rounds_ = 0;
  Duration round_time_{};
  TimePoint timer_;            // the last call of on_timer()
  TimePoint beat_;             // the last heartbeat
  double late_seconds_ = 0.0;  // since the last heartbeat: each moment's wait for the timer, summed
};

}  // namespace hearth::node

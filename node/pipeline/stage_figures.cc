#include "node/pipeline/stage_figures.h"

#include <utility>

#include "base/check.h"

namespace hearth::node {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(25);  // between two calls of a timely owner

}  // namespace

StageFigures::StageFigures(const Clock& clock)
    : clock_(clock), timer_(clock.now()), beat_(clock.now()) {}

// A frame that arrives at a random moment of a gap waits for half of the gap on average.
void StageFigures::on_timer() {
  const TimePoint now = clock_.now();
  const double gap =
      std::chrono::duration<double>(now - std::exchange(timer_, now) - kTick).count();
  if (gap > 0.0) late_seconds_ += gap * gap / 2.0;
}

void StageFigures::step_begins() {
  if (outstanding_++ == 0) busy_since_ = clock_.now();
}

void StageFigures::step_ends() {
  INVARIANT(outstanding_ > 0, "a step that comes back was given out");
  if (--outstanding_ == 0) busy_ += clock_.now() - busy_since_;
}

void StageFigures::count_rows(std::uint64_t computed, std::uint64_t replayed) {
  ++steps_;
  rows_ += computed;
  replayed_rows_ += replayed;
}

void StageFigures::count_round(Duration time) {
  INVARIANT(time >= Duration::zero(), "a round ends after it began");
  ++rounds_;
  round_time_ += time;
}

void StageFigures::fill(control::v1::Heartbeat& heartbeat) {
  const TimePoint now = clock_.now();
  const double since = std::chrono::duration<double>(now - std::exchange(beat_, now)).count();
  if (since > 0.0) heartbeat.set_lateness(late_seconds_ / since);
  late_seconds_ = 0.0;
  Duration busy = busy_;
  if (outstanding_ > 0) busy += now - busy_since_;
  heartbeat.set_steps_total(steps_);
  heartbeat.set_rows_total(rows_);
  heartbeat.set_busy_seconds_total(std::chrono::duration<double>(busy).count());
  heartbeat.set_ring_steps_total(rounds_);
  heartbeat.set_ring_seconds_total(std::chrono::duration<double>(round_time_).count());
  heartbeat.set_late_frames_total(late_frames_);
  heartbeat.set_replayed_rows_total(replayed_rows_);
}

}  // namespace hearth::node

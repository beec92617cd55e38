#include "coordinator/workers/step_pace.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace hearth::coordinator {
namespace {

constexpr Duration kWindow = std::chrono::seconds(1);
constexpr std::uint64_t kSteps = 8;
// Wake-ups on a busy machine are late by some milliseconds now and then.
constexpr double kNoise = 0.015;
constexpr double kGrowth = 1.03;  // of a window

}  // namespace

void StepPace::report(TimePoint now, const Totals& totals) {
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

void StepPace::close(TimePoint now, const Totals& totals) {
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
  // What a step takes grows with what its sequences have behind them.
  if (!is_slow) usual = usual == 0.0 ? seconds : std::min(seconds, kGrowth * usual);
  slowness_ = std::min(last_, times);
  last_ = times;
  begin_ = now;
  first_ = totals;
  late_ = 0.0;
  beats_ = 0;
}

}  // namespace hearth::coordinator

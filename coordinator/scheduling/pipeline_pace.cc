#include "coordinator/scheduling/pipeline_pace.h"

#include <algorithm>

namespace hearth::coordinator {
namespace {

constexpr double kWeight = 1.0 / 16;

}  // namespace

void PipelinePace::token(Duration waited, std::uint32_t running, TimePoint now) {
  const double seconds = std::max(0.0, std::chrono::duration<double>(waited).count());
  const double sequences = std::max(running, 1U);
  const double weight = measured_ ? kWeight : 1.0;
  seconds_ += weight * (seconds - seconds_);
  running_ += weight * (sequences - running_);
  measured_ = true;
  last_ = now;
}

std::optional<double> PipelinePace::with_one_more(std::uint32_t running) const {
  if (!measured_) return std::nullopt;
  return seconds_ * (running + 1.0) / running_;
}

}  // namespace hearth::coordinator

#include "node/runner/prompt_pace.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::node {
namespace {

constexpr double kFastest = 1.25;  // growth after one measurement: one may have been lucky
constexpr double kSlack = 0.9;     // below this share of the target the pace grows

}  // namespace

PromptPace::PromptPace(std::optional<Duration> target, std::uint32_t most)
    : target_(target), most_(most), rows_(most) {
  INVARIANT(most > 0, "a step carries at least one row of a prompt");
}

Duration PromptPace::target() const {
  return target_ ? *target_ : std::max(kTarget, kIdleSteps * idle_);
}

void PromptPace::take_idle(Duration between) {
  if (between <= Duration::zero()) return;
  idle_ = idle_ == Duration::zero() ? between : idle_ + (between - idle_) / 8;
}

// What a step takes grows at most as its rows do, so this never falls below what the target needs.
void PromptPace::take_busy(Duration between, bool full) {
  if (between <= Duration::zero()) return;
  const double ratio = std::chrono::duration<double>(target()) / between;
  if (ratio < 1.0 || (full && ratio * kSlack > 1.0)) {
    const double next = rows_ * std::min(ratio, kFastest);
    // More than `most` rows are never wanted: no conversion overflows.
    const auto rows = static_cast<std::uint32_t>(std::min<double>(next, most_));
    rows_ = std::clamp(rows, std::min(kLeastRows, most_), most_);
  }
  INVARIANT(rows_ > 0 && rows_ <= most_, "the pace keeps its bounds");
}

}  // namespace hearth::node

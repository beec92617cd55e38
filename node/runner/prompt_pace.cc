#include "node/runner/prompt_pace.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::node {
namespace {

constexpr double kFastest = 1.25;  // growth after one measurement: one may have been lucky
constexpr double kSlack = 0.9;     // below this share of the target the pace grows

}  // namespace

PromptPace::PromptPace(std::optional<Duration> target, std::uint32_t most, std::uint32_t steps)
    : target_(target), most_(most), most_steps_(steps), round_(most * steps) {
  INVARIANT(most > 0 && steps > 0, "a step carries at least one row of a prompt");
}

// A chunk shorter than a KV page costs a step nearly as much: fewer steps carry whole ones.
std::uint32_t PromptPace::steps() const {
  return std::clamp(round_ / std::min(kLeastRows, most_), std::uint32_t{1}, most_steps_);
}

std::uint32_t PromptPace::rows() const { return std::min(round_ / steps(), most_); }

Duration PromptPace::target() const {
  return target_ ? *target_ : std::max(kTarget, kIdleSteps * idle_);
}

void PromptPace::take_idle(Duration between) {
  if (between <= Duration::zero()) return;
  idle_ = idle_ == Duration::zero() ? between : idle_ + (between - idle_) / 8;
}

// The time of a round grows at most as its rows do, so the round never falls below the rows that
// the target allows.
void PromptPace::take_busy(Duration between, bool full) {
  if (between <= Duration::zero()) return;
  const double ratio = std::chrono::duration<double>(target()) / between;
  if (ratio < 1.0 || (full && ratio * kSlack > 1.0)) {
    const double next = round_ * std::min(ratio, kFastest);
    // More than all steps carry is never wanted: no conversion overflows.
    const std::uint32_t most = most_ * most_steps_;
    const auto round = static_cast<std::uint32_t>(std::min<double>(next, most));
    round_ = std::clamp(round, std::min(kLeastRows, most_), most);
  }
  INVARIANT(rows() > 0 && rows() <= most_ && rows() * steps() <= round_,
            "the pace keeps its bounds");
}

}  // namespace hearth::node

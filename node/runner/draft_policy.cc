#include "node/runner/draft_policy.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace hearth::node {
namespace {

constexpr double kCostRise = 1.02;        // of one step at most
constexpr double kOddsWeight = 1.0 / 12;  // of the latest token
constexpr double kLeastGain = 1.03;

}  // namespace

void StepCosts::take(std::uint32_t rows, Duration took) {
  ++steps_;
  const double seconds = std::chrono::duration<double>(took).count();
  if (rows == 0 || rows > kKnownRows || seconds <= 0.0) return;
  Cost& cost = costs_[rows];
  cost.seconds = known(rows) ? std::min(seconds, kCostRise * cost.seconds) : seconds;
  cost.seen = steps_;
}

bool StepCosts::known(std::uint32_t rows) const {
  const std::uint64_t seen = costs_[rows].seen;
  return seen != 0 && steps_ - seen < kForgottenAfter;
}

double StepCosts::of(std::uint32_t rows) const {
  INVARIANT(rows > 0, "a step that costs something has rows");
  if (rows <= kKnownRows && known(rows)) return costs_[rows].seconds;
  std::optional<std::uint32_t> below;
  std::optional<std::uint32_t> above;
  for (std::uint32_t i = 1; i <= kKnownRows; ++i) {
    if (!known(i)) continue;
    if (i < rows) below = i;
    if (i > rows && !above) above = i;
  }
  return between(below, above, rows);
}

// A straight line; a wider step never counts as cheaper.
double StepCosts::between(std::optional<std::uint32_t> below, std::optional<std::uint32_t> above,
                          std::uint32_t rows) const {
  const auto estimate = [](std::uint32_t count) { return 1.0 + kRowCost * (count - 1); };
  if (!below && !above) return estimate(rows);
  if (!below) return costs_[*above].seconds * estimate(rows) / estimate(*above);
  const double from = costs_[*below].seconds;
  double slope = kRowCost * from / estimate(*below);
  if (above) {
    slope = (costs_[*above].seconds - from) / (*above - *below);
  } else {
    const auto first = std::find_if(costs_.begin(), costs_.end(), [&](const Cost& cost) {
      return known(static_cast<std::uint32_t>(&cost - costs_.data()));
    });
    const auto least = static_cast<std::uint32_t>(first - costs_.begin());
    if (least < *below) slope = (from - first->seconds) / (*below - least);
  }
  return from + std::max(slope, 0.0) * (rows - *below);
}

std::size_t DraftOdds::level(std::uint32_t matched) {
  if (matched == kForced) return 0;
  const auto bits = static_cast<std::size_t>(std::bit_width(std::max(matched, 2U)));
  return std::min<std::size_t>(bits - 1, 4);
}

void DraftOdds::take(std::uint32_t matched, bool right) {
  double& rate = rates_[level(matched)];
  rate += kOddsWeight * ((right ? 1.0 : 0.0) - rate);
}

double tokens_expected(std::span<const double> odds) {
  double all = 0.0;
  double right = 1.0;  // up to here
  for (const double one : odds) all += right *= one;
  return all;
}

std::uint32_t drafts_worth(const StepCosts& costs, std::uint32_t rows, double tokens,
                           std::span<const double> odds) {
  double best = kLeastGain * tokens / costs.of(rows);
  std::uint32_t count = 0;
  double right = 1.0;
  for (std::size_t i = 0; i < odds.size(); ++i) {
    tokens += right *= odds[i];
    const auto drafts = static_cast<std::uint32_t>(i + 1);
    const double rate = tokens / costs.of(rows + drafts);
    if (rate <= best) continue;
    best = rate;
    count = drafts;
  }
  return count;
}

}  // namespace hearth::node

#include "node/runner/draft_policy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace hearth::node {
namespace {

constexpr double kCostRise = 1.02;        // of one step at most
constexpr double kOddsWeight = 1.0 / 12;  // of the latest token
constexpr double kLeastGain = 1.03;
constexpr double kSecondsWeight = 0.25;  // of the latest answer of a model
constexpr std::size_t kFewOthers = 4;    // their mean odds stand for all
constexpr double kMostOdds = 0.95;       // of a model's draft: the text may change
// ahead_worth() looks at so many steps, as long as their drafts have more than this chance.
constexpr std::size_t kStepsAhead = 32;
constexpr double kNoChance = 0.01;

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

double chance_of(std::span<const double> odds) {
  return std::accumulate(odds.begin(), odds.end(), 1.0, std::multiplies<>());
}

double tokens_expected(std::span<const double> odds) {
  double all = 0.0;
  double right = 1.0;  // up to here
  for (const double one : odds) all += right *= one;
  return all;
}

Worth step_worth(const StepCosts& costs, std::uint32_t rows, double tokens,
                 std::span<const double> odds, double draft_seconds) {
  Worth best{0, tokens / costs.of(rows)};
  double right = 1.0;
  for (std::size_t i = 0; i < odds.size(); ++i) {
    tokens += right *= odds[i];
    const auto drafts = static_cast<std::uint32_t>(i + 1);
    const double rate = tokens / (costs.of(rows + drafts) + drafts * draft_seconds);
    const double least = best.drafts == 0 ? kLeastGain * best.rate : best.rate;
    if (rate > least) best = {drafts, rate};
  }
  return best;
}

std::uint32_t drafts_worth(const StepCosts& costs, std::uint32_t rows, double tokens,
                           std::span<const double> odds) {
  return step_worth(costs, rows, tokens, odds).drafts;
}

Worth ahead_worth(const StepCosts& costs, std::uint32_t stages, double odds, double draft_seconds,
                  std::size_t most) {
  Worth best;
  if (stages < 2) return best;
  const double step = costs.of(1);
  for (std::uint32_t drafts = 1; drafts <= most; ++drafts) {
    const double wider = costs.of(drafts);
    std::vector<double> answers = {step};  // of the steps so far: when each comes
    double leaves = 0.0;
    double seconds = step;  // until the answer behind which nothing more is right
    double tokens = 1.0;
    double right = 1.0;  // all drafts before the next step
    // Steps under way behind which others may leave.
    const double sure = std::pow(odds, drafts);
    std::size_t flying = 1;
    for (double all = sure; flying < stages && all >= kLeastOdds; all *= sure) ++flying;
    for (std::size_t i = 1; i <= kStepsAhead && right > kNoChance; ++i) {
      leaves = std::max(leaves + step / stages, static_cast<double>(i * drafts) * draft_seconds);
      if (i > flying) leaves = std::max(leaves, answers[i - 1 - flying]);
      answers.push_back(std::max(leaves + wider, answers.back()));
      seconds += right * odds * (answers[i] - answers[i - 1]);
      for (std::uint32_t j = 0; j < drafts; ++j) tokens += right *= odds;
    }
    if (tokens / seconds > best.rate) best = {drafts, tokens / seconds};
  }
  return best;
}

void DraftTrial::take(Duration took, std::uint32_t tokens) {
  const double seconds = std::chrono::duration<double>(took).count();
  if (tokens == 0 || seconds <= 0.0) return;
  if (asks_) {
    take_trial(seconds, tokens);
  } else {
    take_plain(seconds, tokens);
  }
}

std::optional<Duration> DraftTrial::patience() const {
  if (plain_ == 0.0) return std::nullopt;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(kWaitMost * plain_));
}

void DraftTrial::take_plain(double seconds, std::uint32_t tokens) {
  window_.seconds += seconds;
  window_.tokens += tokens;
  pause_seconds_ = std::max(0.0, pause_seconds_ - seconds);
  pause_tokens_ -= std::min(pause_tokens_, tokens);
  if (window_.tokens < kPlainTokens) return;
  plain_ = window_.each();
  window_ = {};
  if (pause_seconds_ > 0.0 || pause_tokens_ > 0) return;
  asks_ = true;
  trial_ = {};
  won_ = 0;
}

void DraftTrial::take_trial(double seconds, std::uint32_t tokens) {
  INVARIANT(plain_ > 0.0, "a trial follows a measurement without the model");
  trial_.seconds += seconds;
  trial_.tokens += tokens;
  const double lost = trial_.seconds - static_cast<double>(trial_.tokens) * plain_;
  if (trial_.tokens < kTrialTokens && lost < kEarlyLoss * plain_) return;
  proven_ = static_cast<double>(trial_.tokens) * plain_ > kLeastGain * trial_.seconds;
  won_ += trial_.tokens;
  trial_ = {};
  if (proven_ && won_ < kAgainTokens) return;
  asks_ = false;
  window_ = {};
  if (proven_) return;
  pause_seconds_ = std::clamp(lost, 0.0, kLossMost * plain_) / kMostLost;
  pause_tokens_ = kPauseTokens;
}

void ModelDrafts::take_answer(Duration took, std::uint32_t tokens) {
  trial_.take(took, tokens);
  if (!trial_.begins()) return;
  odds_ = kFirstOdds;
  seconds_.reset();
}

void ModelDrafts::take_drafts(Duration took, std::uint32_t drafts) {
  if (drafts == 0) return;
  const double each = std::chrono::duration<double>(took).count() / drafts;
  seconds_ = seconds_ ? *seconds_ + kSecondsWeight * (each - *seconds_) : each;
}

void ModelDrafts::take_draft(bool right) {
  odds_ = std::min(kMostOdds, odds_ + kOddsWeight * ((right ? 1.0 : 0.0) - odds_));
}

ModelDrafts::Plan ModelDrafts::plan(const StepCosts& costs, std::uint32_t stages,
                                    std::span<const double> others, std::size_t most) const {
  if (!seconds_ || !costs.measured()) {
    return {static_cast<std::uint32_t>(std::min<std::size_t>(most, kProbe)), false};
  }
  const std::vector<double> odds(most, odds_);
  const Worth with = step_worth(costs, 1, 1.0, odds, *seconds_);
  const Worth ahead = ahead_worth(costs, stages, odds_, *seconds_, most);
  double without = step_worth(costs, 1, 1.0, others).rate;
  if (!others.empty()) {  // these follow in further steps, too
    const std::span<const double> next = others.first(std::min(others.size(), kFewOthers));
    const double mean = std::pow(chance_of(next), 1.0 / static_cast<double>(next.size()));
    without =
        std::max(without, ahead_worth(costs, stages, mean, 0.0,
                                      std::min<std::size_t>(others.size(), limits::kDraftRows))
                              .rate);
  }
  const double least = kLeastGain * without;
  if (ahead.rate > least && ahead.rate > kLeastGain * with.rate) return {ahead.drafts, true};
  return with.rate > least ? Plan{with.drafts, false} : Plan{};
}

}  // namespace hearth::node

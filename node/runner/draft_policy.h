// How many drafts a step should verify: what they are likely to bring, and what a wider step costs.
// Both are measured, neither changes a token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "proto/step.h"

namespace hearth::node {

// StepCosts: how long a step takes, from its start on the first stage to its answer, or from the
// answer before it, by the number of its rows. So the slowest stage decides it where several steps
// travel, and all stages together where one does. The quickest of the latest steps counts: others
// had to wait for a processor. Counts that were not seen lately are estimated from their
// neighbours, at first by kRowCost, so that a wider step is tried before it is known.
class StepCosts {
 public:
  static constexpr double kRowCost = 0.06;  // of a row beyond the first, in steps of one row
  static constexpr std::uint32_t kForgottenAfter = 600;  // steps

  void take(std::uint32_t rows, Duration took);
  // Relative to each other; above 0. In seconds once a step was taken.
  double of(std::uint32_t rows) const;
  bool measured() const { return steps_ > 0; }

 private:
  static constexpr std::uint32_t kKnownRows = 2 * limits::kDraftRows;
  struct Cost {
    double seconds = 0.0;
    std::uint64_t seen = 0;  // number of the step; 0: never
  };
  bool known(std::uint32_t rows) const;
  double between(std::optional<std::uint32_t> below, std::optional<std::uint32_t> above,
                 std::uint32_t rows) const;

  std::array<Cost, kKnownRows + 1> costs_{};  // by rows
  std::uint64_t steps_ = 0;
};

// DraftOdds: how often drafts of one sequence were right lately, by where they come from: the
// longer the match that a lookup found, the likelier its next token. Every token of the answer
// counts, whether a step verified a draft of it or not.
class DraftOdds {
 public:
  // Tokens that agreed, of a lookup; a lookup's second draft counts the first as one more.
  static constexpr std::uint32_t kForced = 0;
  double of(std::uint32_t matched) const { return rates_[level(matched)]; }
  void take(std::uint32_t matched, bool right);

 private:
  static std::size_t level(std::uint32_t matched);
  // Of forced tokens; of matches of 2, 4, 8, 16 tokens or more. Where nothing is known yet, prose
  // and code lie on either side.
  std::array<double, 5> rates_ = {0.9, 0.25, 0.5, 0.7, 0.85};
};

// The number of drafts, of those whose odds are given in order, with which a step gives the most
// tokens a second. `rows` and `tokens`: of the step so far, the rows before the drafts included,
// and what they give. `draft_seconds`: what each draft takes before the step can begin. A gain that
// a clock hardly shows counts as none.
struct Worth {
  std::uint32_t drafts = 0;
  double rate = 0.0;  // tokens a second
};
Worth step_worth(const StepCosts& costs, std::uint32_t rows, double tokens,
                 std::span<const double> odds, double draft_seconds = 0.0);
std::uint32_t drafts_worth(const StepCosts& costs, std::uint32_t rows, double tokens,
                           std::span<const double> odds);
// What so many of them give in the mean.
double tokens_expected(std::span<const double> odds);

// DraftTrial: whether a lone stream is faster with a draft model than without, by the clock. The
// stream runs without one for a while, then with one, and keeps to what was faster. What a trial
// has lost sets how long the next one waits, so that trials together cost at most kMostLost of the
// time, however slow the model is and whatever else the machine computes.
class DraftTrial {
 public:
  static constexpr std::uint32_t kPlainTokens = 16;   // that say how fast the stream is without
  static constexpr std::uint32_t kTrialTokens = 32;   // that say it with the model
  static constexpr std::uint32_t kAgainTokens = 512;  // with it, then its worth is judged again
  static constexpr std::uint32_t kPauseTokens = 64;   // without it, at least, behind a lost trial
  static constexpr double kMostLost = 0.02;           // of the time
  // In times of a token: a trial that has lost so much is over, and what counts of it at most, for
  // the machine may have slept.
  static constexpr double kEarlyLoss = 8.0;
  static constexpr double kLossMost = 256.0;

  bool asks() const { return asks_; }
  // What so many tokens took, with all that they waited for, in the mode that asks() says.
  void take(Duration took, std::uint32_t tokens);
  // Set where take() has begun a trial behind one that failed, or the first one.
  bool begins() const { return asks_ && trial_.tokens == 0 && !proven_; }

 private:
  struct Sum {
    double seconds = 0.0;
    std::uint64_t tokens = 0;
    double each() const { return seconds / static_cast<double>(tokens); }
  };
  void take_plain(double seconds, std::uint32_t tokens);
  void take_trial(double seconds, std::uint32_t tokens);

  bool asks_ = false;
  bool proven_ = false;  // the latest trial that ended was won
  Sum window_;           // without the model, the latest tokens
  double plain_ = 0.0;   // seconds of a token without it
  Sum trial_;
  std::uint64_t won_ = 0;  // tokens in trials since the last ones without
  // What is still to pass without the model.
  double pause_seconds_ = 0.0;
  std::uint32_t pause_tokens_ = 0;
};

// ModelDrafts: how many tokens a draft model is asked for behind a token of a lone stream. It
// follows how often the model was right lately, what a token of it takes, what a wider step takes,
// and what other drafts would give; and the trial's word.
class ModelDrafts {
 public:
  static constexpr std::uint32_t kProbe = 2;  // asked for where nothing is measured

  bool asks() const { return trial_.asks(); }
  void take_answer(Duration took, std::uint32_t tokens);
  void take_drafts(Duration took, std::uint32_t drafts);
  void take_draft(bool right);
  double odds() const { return odds_; }
  // At most `most`. `others`: the odds of drafts that are there for nothing.
  std::uint32_t count(const StepCosts& costs, std::span<const double> others,
                      std::size_t most) const;

 private:
  static constexpr double kFirstOdds = 0.7;

  DraftTrial trial_;
  double odds_ = kFirstOdds;
  std::optional<double> seconds_;  // of one draft
};

}  // namespace hearth::node

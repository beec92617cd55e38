// How many drafts a step should verify, from their measured chances and the measured cost of wider
// steps. Drafts never change a token.
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
// answer before it, by the number of its rows. So the slowest stage decides it when several steps
// travel, and all stages together when one does. The quickest of the latest steps counts, because
// others waited for a processor. Counts without recent measurements are estimated from their
// neighbours, at first by kRowCost, so that a wider step is tried before it is measured.
class StepCosts {
 public:
  static constexpr double kRowCost = 0.06;  // of a row beyond the first, in steps of one row
  static constexpr std::uint32_t kForgottenAfter = 600;  // steps

  void take(std::uint32_t rows, Duration took);
  // Relative to each other; above 0. In seconds if measured().
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
// counts, with or without a verified draft.
class DraftOdds {
 public:
  // In place of a lookup's number of matching tokens. A lookup's second draft counts the first as
  // another match.
  static constexpr std::uint32_t kForced = 0;
  double of(std::uint32_t matched) const { return rates_[level(matched)]; }
  void take(std::uint32_t matched, bool right);

 private:
  static std::size_t level(std::uint32_t matched);
  // Of forced tokens; of matches of 2, 4, 8, 16 tokens or more. The initial values lie between
  // those of prose and code.
  std::array<double, 5> rates_ = {0.9, 0.25, 0.5, 0.7, 0.85};
};

// The number of drafts, of those whose odds are given in order, with which a step gives the most
// tokens a second. `rows` and `tokens`: of the step so far, the rows before the drafts included,
// and what they give. `draft_seconds`: the time of each draft before the step can begin. A gain
// within the clock's noise counts as no gain.
struct Worth {
  std::uint32_t drafts = 0;
  double rate = 0.0;  // tokens a second
};
Worth step_worth(const StepCosts& costs, std::uint32_t rows, double tokens,
                 std::span<const double> odds, double draft_seconds = 0.0);
std::uint32_t drafts_worth(const StepCosts& costs, std::uint32_t rows, double tokens,
                           std::span<const double> odds);
// The chance that all of these drafts are right.
double chance_of(std::span<const double> odds);
// The expected tokens of so many drafts.
double tokens_expected(std::span<const double> odds);

// As step_worth(), for a lone sequence whose newest token leaves at once while a draft model works:
// each time that the model has made `drafts` of them, they follow in a step of their own, as long
// as all before them are right with a chance of kLeastOdds. `stages`: of the pipeline, taken as
// equally fast. Of each draft: `odds` to be right, and `draft_seconds` of the model's time.
Worth ahead_worth(const StepCosts& costs, std::uint32_t stages, double odds, double draft_seconds,
                  std::size_t most);
// No drafts follow those that are all right with a smaller chance: they delay the step that
// corrects the wrong ones.
inline constexpr double kLeastOdds = 0.3;

// DraftTrial: measures whether a draft model makes a lone stream faster. The stream runs without
// the model, then with it, and keeps the faster way. The time that a trial loses sets the pause
// before the next one, so that all trials together cost at most kMostLost of the time, for any
// model and any load of the machine. This counts at most kLossMost tokens of a trial's loss; waits
// beyond patience() end before.
class DraftTrial {
 public:
  static constexpr std::uint32_t kPlainTokens = 16;  // that measure the stream without the model
  static constexpr std::uint32_t kTrialTokens = 32;  // that measure it with the model
  static constexpr std::uint32_t kAgainTokens =
      512;                                           // with the model, then both are measured again
  static constexpr std::uint32_t kPauseTokens = 64;  // least without the model after a lost trial
  static constexpr double kMostLost = 0.02;          // of the time
  // In times of a token: a trial ends when it has lost kEarlyLoss. A token waits for drafts for
  // kWaitMost. At most kLossMost counts, because the machine may have slept.
  static constexpr double kEarlyLoss = 8.0;
  static constexpr double kWaitMost = 16.0;
  static constexpr double kLossMost = 256.0;

  bool asks() const { return asks_; }
  // The time of so many tokens, waiting included, in the mode of asks().
  void take(Duration took, std::uint32_t tokens);
  // How long a token may wait for drafts; nothing before a token's time is known.
  std::optional<Duration> patience() const;
  // True if take() has just begun a trial that is the first, or that follows a lost one.
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
  bool proven_ = false;  // the latest finished trial was won
  Sum window_;           // of the latest tokens without the model
  double plain_ = 0.0;   // seconds of a token without the model
  Sum trial_;
  std::uint64_t won_ = 0;  // tokens in won trials since the last tokens without the model
  // What remains of the pause without the model.
  double pause_seconds_ = 0.0;
  std::uint32_t pause_tokens_ = 0;
};

// ModelDrafts: how many drafts a lone stream asks a draft model for after a token, and whether its
// next step waits for them. Both follow from how often its drafts were right lately, the time of a
// draft, the time of a wider step, and the worth of other drafts. A DraftTrial says whether it is
// asked at all.
class ModelDrafts {
 public:
  static constexpr std::uint32_t kProbe = 2;  // drafts to ask for before anything is measured

  bool asks() const { return trial_.asks(); }
  std::optional<Duration> patience() const { return trial_.patience(); }
  void take_answer(Duration took, std::uint32_t tokens);
  void take_drafts(Duration took, std::uint32_t drafts);
  void take_draft(bool right);
  double odds() const { return odds_; }
  struct Plan {
    std::uint32_t count = 0;
    bool ahead = false;  // the step does not wait; so many drafts follow, again and again
  };
  // At most `most`. `others`: the odds of drafts that cost no time, such as the lookup's.
  Plan plan(const StepCosts& costs, std::uint32_t stages, std::span<const double> others,
            std::size_t most) const;

 private:
  static constexpr double kFirstOdds = 0.7;

  DraftTrial trial_;
  double odds_ = kFirstOdds;
  std::optional<double> seconds_;  // of one draft
};

}  // namespace hearth::node

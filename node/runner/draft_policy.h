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
  // Relative to each other; above 0.
  double of(std::uint32_t rows) const;

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
// and what they give. A gain within the clock's noise counts as no gain.
std::uint32_t drafts_worth(const StepCosts& costs, std::uint32_t rows, double tokens,
                           std::span<const double> odds);
// The expected tokens of so many drafts.
double tokens_expected(std::span<const double> odds);

}  // namespace hearth::node

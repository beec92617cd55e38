// PromptPace: how many prompt rows travel between two tokens of an answer, so that prompts of
// others do not hold it up for longer than a target: how many of the steps under way carry a
// prompt, and how many rows each of them has.
//
// Measured: the time between two tokens of one answer. What that takes depends on the machines, the
// links and on how many steps travel at once; the pace follows what is seen and knows none of it.
// A plain value, for one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace hearth::node {

class PromptPace {
 public:
  static constexpr std::uint32_t kLeastRows = 32;  // a KV page: prompts are cut where pages end
  static constexpr Duration kTarget = std::chrono::milliseconds(100);  // or kIdleSteps, if longer
  static constexpr int kIdleSteps = 3;

  // `target`: nothing means the default. `most`: rows of a step, also while no answer waits.
  // `steps`: that may be under way.
  PromptPace(std::optional<Duration> target, std::uint32_t most, std::uint32_t steps);

  // Between two tokens of an answer: what the two below come from.
  std::uint32_t round() const { return round_; }
  std::uint32_t steps() const;  // of those under way, with prompts
  std::uint32_t rows() const;   // of prompts, in each of them
  Duration target() const;

  // Between two tokens of an answer, while no prompt travelled.
  void take_idle(Duration between);
  // While steps carried prompts. `full`: as many of them as may, and as many rows.
  void take_busy(Duration between, bool full);

 private:
  std::optional<Duration> target_;
  std::uint32_t most_;
  std::uint32_t most_steps_;
  std::uint32_t round_;
  Duration idle_{};  // smoothed; 0: not seen yet
};

}  // namespace hearth::node

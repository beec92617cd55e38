// PromptPace: limits the prompt rows between two tokens of an answer, so that other prompts do not
// delay it beyond a target: how many steps under way carry prompt rows, and how many rows each has.
//
// It measures only the time between two tokens of one answer. That time depends on the machines,
// the links and the steps in flight, which the pace need not know. A plain value, for one thread.
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
  // `steps`: steps that may be under way.
  PromptPace(std::optional<Duration> target, std::uint32_t most, std::uint32_t steps);

  // Prompt rows between two tokens of an answer, from which steps() and rows() follow.
  std::uint32_t round() const { return round_; }
  std::uint32_t steps() const;  // steps under way that may carry prompts
  std::uint32_t rows() const;   // prompt rows in each of them
  Duration target() const;

  // A time between two tokens of an answer without prompts under way.
  void take_idle(Duration between);
  // The same with prompts under way. `full`: as many steps and rows as the pace allows.
  void take_busy(Duration between, bool full);

 private:
  std::optional<Duration> target_;
  std::uint32_t most_;
  std::uint32_t most_steps_;
  std::uint32_t round_;
  Duration idle_{};  // smoothed; 0: not measured yet
};

}  // namespace hearth::node

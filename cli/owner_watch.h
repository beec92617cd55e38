// OwnerWatch: what a worker knows of its machine's owner: his order in the data folder, and what
// goes on here.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "node/machine/availability.h"
#include "node/machine/game_watch.h"
#include "proto/card_reading.h"

namespace hearth::cli {

struct OwnerWatchOptions {
  std::string folder;  // of pause.json
  node::Triggers triggers;
  std::function<CardReading()> card;  // null: no card whose sensors can be asked
  std::filesystem::path power_supply = "/sys/class/power_supply";
};

class OwnerWatch {
 public:
  OwnerWatch(OwnerWatchOptions options, const Clock& clock);

  // Nothing: the machine is the swarm's. Often called, it looks at the order ten times a second and
  // at everything else once. An order that cannot be read counts as a pause.
  std::optional<Away> look();
  // Whether what it is away for, or will be, is a drain; as look() found it.
  bool drains() const { return order_ && order_->drain; }

 private:
  void look_at_order();
  void look_around();

  const OwnerWatchOptions options_;
  const Clock& clock_;
  node::Availability availability_;
  std::unique_ptr<node::GameWatch> games_;
  TimePoint next_order_{};
  TimePoint next_signs_{};
  std::optional<std::pair<std::int64_t, std::uint64_t>> seen_;  // when written, and which file
  std::optional<node::OwnerOrder> order_;
  node::Signs signs_;
};

}  // namespace hearth::cli

// OwnerWatch: tells a worker when its machine is the owner's: by the order in the data folder
// (pause_file.h), running games, foreign GPU use, the schedule, or battery power.
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

namespace hearth::node {

struct OwnerWatchOptions {
  std::string folder;  // of pause.json
  Triggers triggers;
  std::function<CardReading()> card;  // null: no card whose sensors can be asked
  std::filesystem::path power_supply = "/sys/class/power_supply";
};

class OwnerWatch {
 public:
  OwnerWatch(OwnerWatchOptions options, const Clock& clock);

  // Nothing: the machine is the swarm's. Called often, it checks the order ten times a second and
  // everything else once a second. An order that cannot be read counts as a pause.
  std::optional<Away> look();
  // What an admin of the cluster wants, beside the owner. Of two orders the one that takes the
  // machine away sooner counts; a new one replaces the admin's one before.
  void set_admin_order(const std::optional<OwnerOrder>& order) { admin_order_ = order; }
  // Whether the owner's order, as look() last read it, is a drain that holds now.
  bool drains() const { return drains_; }

 private:
  void look_at_order();
  void look_around();

  const OwnerWatchOptions options_;
  const Clock& clock_;
  Availability availability_;
  Availability admin_{Triggers{false, false, 0, {}}};  // by the admin's order alone
  std::unique_ptr<GameWatch> games_;
  TimePoint next_order_{};
  TimePoint next_signs_{};
  std::optional<std::pair<std::int64_t, std::uint64_t>> seen_;  // when written, and which file
  std::optional<OwnerOrder> order_;
  std::optional<OwnerOrder> admin_order_;
  bool drains_ = false;
  Signs signs_;
};

}  // namespace hearth::node

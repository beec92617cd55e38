// OwnerWatch: tells a worker when the owner uses the machine, by the order in the data folder
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
  // Where an admin's order stays when the process ends; empty: nowhere.
  std::string admin_file = {};
  Triggers triggers;
  std::function<CardReading()> card;  // null: no GPU with sensors
  std::filesystem::path power_supply = "/sys/class/power_supply";
};

class OwnerWatch {
 public:
  OwnerWatch(OwnerWatchOptions options, const Clock& clock);

  // Nothing: the swarm uses the machine. Called often, it checks the order ten times a second and
  // everything else once a second. An unreadable order counts as a pause.
  std::optional<Away> look();
  // Sets and keeps the order of an admin of the cluster, which replaces the admin's earlier one.
  // Beside the owner's order, the stricter one counts. Nothing: the admin's order ends.
  void set_admin_order(const std::optional<OwnerOrder>& order);
  // Whether the owner's order, as look() last read it, is a drain that holds now.
  bool drains() const { return drains_; }

 private:
  void look_at_order();
  void look_around();

  const OwnerWatchOptions options_;
  const Clock& clock_;
  Availability availability_;
  Availability admin_{Triggers{false, false, 0, {}}};  // judges only the admin's order
  std::unique_ptr<GameWatch> games_;
  TimePoint next_order_{};
  TimePoint next_signs_{};
  std::optional<std::pair<std::int64_t, std::uint64_t>> seen_;  // the file's time and identity
  std::optional<OwnerOrder> order_;
  std::optional<OwnerOrder> admin_order_;
  bool drains_ = false;
  Signs signs_;
};

}  // namespace hearth::node

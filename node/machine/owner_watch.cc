#include "node/machine/owner_watch.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <ctime>

#include "node/machine/pause_file.h"
#include "node/machine/power_supply.h"

namespace hearth::node {
namespace {

constexpr Duration kOrderEvery = std::chrono::milliseconds(100);
constexpr Duration kSignsEvery = std::chrono::seconds(1);

std::uint32_t minute_of_day(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  if (localtime_r(&time, &parts) == nullptr) return 0;
  return static_cast<std::uint32_t>(parts.tm_hour * 60 + parts.tm_min);
}

}  // namespace

OwnerWatch::OwnerWatch(OwnerWatchOptions options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      availability_(options_.triggers),
      next_order_(clock.now()),
      next_signs_(clock.now()) {
  if (!options_.admin_file.empty()) {
    const auto order = read_admin_order(options_.admin_file);
    admin_order_ = order.ok() ? *order : OwnerOrder{};
    if (!order.ok()) {
      spdlog::error("paused, because the admin's order cannot be read: {}", order.error().message);
    }
  }
  if (!options_.triggers.games) return;
  auto games = GameWatch::open();
  if (games.ok()) {
    games_ = std::move(*games);
  } else {
    spdlog::debug("games will not be noticed: {}", games.error().message);
  }
}

void OwnerWatch::set_admin_order(const std::optional<OwnerOrder>& order) {
  admin_order_ = order;
  if (options_.admin_file.empty()) return;
  const Status kept = write_admin_order(options_.admin_file, order);
  if (!kept) spdlog::error("the admin's order ends with this process: {}", kept.error().message);
}

std::optional<Away> OwnerWatch::look() {
  const TimePoint now = clock_.now();
  if (now >= next_order_) {
    next_order_ = now + kOrderEvery;
    look_at_order();
  }
  signs_.unix_seconds = clock_.unix_seconds();
  signs_.games = games_ != nullptr ? games_->games() : 0;
  if (now >= next_signs_) {
    next_signs_ = now + kSignsEvery;
    look_around();
  }
  std::optional<Away> own = availability_.judge(now, order_, signs_);
  const bool holds = order_ && (order_->until == 0 || order_->until > signs_.unix_seconds);
  drains_ = holds && order_->drain;
  std::optional<Away> admins = admin_.judge(now, admin_order_, signs_);
  if (!admins || (own && (!own->drain || admins->drain))) return own;
  admins->why = kAwayByAdmin;
  return admins;
}

void OwnerWatch::look_at_order() {
  struct stat file {};
  const bool there = ::stat(pause_file(options_.folder).c_str(), &file) == 0;
  std::optional<std::pair<std::int64_t, std::uint64_t>> found;
  if (there) {
    found = {file.st_mtim.tv_sec * 1'000'000'000 + file.st_mtim.tv_nsec,
             static_cast<std::uint64_t>(file.st_ino)};
  }
  if (found == seen_) return;
  seen_ = found;
  const auto order = read_pause_file(options_.folder);
  if (order.ok()) {
    order_ = *order;
    return;
  }
  spdlog::error("paused, because the owner's order cannot be read: {}", order.error().message);
  order_ = OwnerOrder{};
}

void OwnerWatch::look_around() {
  signs_.minute = minute_of_day(signs_.unix_seconds);
  signs_.on_battery = options_.triggers.battery && on_battery(options_.power_supply);
  if (options_.card) signs_.foreign_memory = options_.card().foreign_memory;
}

}  // namespace hearth::node

#include "node/machine/availability.h"

#include <algorithm>

#include "base/number.h"

namespace hearth::node {
namespace {

constexpr Duration kSettled = std::chrono::seconds(10);
constexpr Duration kForeignFor = std::chrono::seconds(3);
constexpr std::uint32_t kDayMinutes = 24 * 60;

// "08:00", or nothing.
std::optional<std::uint32_t> minutes_of(std::string_view text) {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  const auto hour = parse_number<std::uint32_t>(text.substr(0, 2));
  const auto minute = parse_number<std::uint32_t>(text.substr(3));
  if (!hour || !minute || *hour > 24 || *minute > 59) return std::nullopt;
  const std::uint32_t all = *hour * 60 + *minute;
  return all <= kDayMinutes ? std::optional(all) : std::nullopt;
}

bool within(const Hours& hours, std::uint32_t minute) {
  if (hours.begin < hours.end) return minute >= hours.begin && minute < hours.end;
  return minute >= hours.begin || minute < hours.end;
}

}  // namespace

Result<Hours> parse_hours(std::string_view text) {
  const auto begin = minutes_of(text.substr(0, text.find('-')));
  const auto end = minutes_of(text.substr(std::min(text.size(), text.find('-') + 1)));
  REQUIRE(text.size() == 11 && begin && end && *begin != *end, "'", text.substr(0, 64),
          "' must be two different times, for example 22:00-08:00");
  return Hours{*begin, *end};
}

bool Availability::holds(Trigger& trigger, TimePoint now, bool reason, Duration least) const {
  if (reason) {
    if (!trigger.since) trigger.since = now;
    if (now - *trigger.since >= least) trigger.until = now + kSettled;
  } else {
    trigger.since.reset();
  }
  return trigger.until && now < *trigger.until;
}

std::optional<Away> Availability::triggered(TimePoint now, const Signs& signs) {
  const std::uint64_t most = triggers_.foreign_memory;
  const bool foreign = most > 0 && signs.foreign_memory.value_or(0) > most;
  // Each is asked every time, so that it knows since when its reason is there.
  const bool games = holds(games_, now, triggers_.games && signs.games > 0, {});
  const bool battery = holds(battery_, now, triggers_.battery && signs.on_battery, {});
  const bool used = holds(foreign_, now, foreign, kForeignFor);
  if (games) return Away{false, 0, "a game runs"};
  if (used) return Away{false, 0, "other programs use the GPU"};
  if (battery) return Away{false, 0, "it runs on battery"};
  if (!triggers_.hours || within(*triggers_.hours, signs.minute)) return std::nullopt;
  const std::uint32_t left = (triggers_.hours->begin + kDayMinutes - signs.minute) % kDayMinutes;
  return Away{false, (signs.unix_seconds / 60 + left) * 60, "outside its hours"};
}

std::optional<Away> Availability::judge(TimePoint now, const std::optional<OwnerOrder>& order,
                                        const Signs& signs) {
  const std::optional<Away> trigger = triggered(now, signs);
  const bool ordered = order && (order->until == 0 || order->until > signs.unix_seconds);
  if (!ordered || !order->drain) drains_since_.reset();
  if (ordered && !order->drain) return Away{false, order->until, "hearth pause"};
  if (!ordered || trigger) return trigger;
  if (!drains_since_) drains_since_ = now;
  const bool patient = now - *drains_since_ < kDrainMost;
  return Away{patient, order->until, "hearth drain"};
}

}  // namespace hearth::node

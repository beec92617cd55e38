// Availability: whether this machine is the swarm's or its owner's, from what the owner has said
// and from what goes on here. A plain state machine: it reads no file and calls no other part.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "proto/away.h"

namespace hearth::node {

// For what a drained machine serves to end; then it is paused.
inline constexpr Duration kDrainMost = std::chrono::minutes(10);

// What the owner has said; it outlives the process.
struct OwnerOrder {
  bool drain = false;      // else pause
  std::int64_t until = 0;  // seconds since 1970; 0: until `hearth resume`
  friend bool operator==(const OwnerOrder&, const OwnerOrder&) = default;
};

// Of a day, in which the machine is the swarm's: minutes since midnight, local time. They may go
// over midnight.
struct Hours {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const Hours&, const Hours&) = default;
};
// "22:00-08:00". kInvalidInput for anything else, and for no time at all.
Result<Hours> parse_hours(std::string_view text);

// What makes a pause of itself.
struct Triggers {
  bool games = true;                                // GameMode says that one runs
  bool battery = true;                              // the machine runs on it
  std::uint64_t foreign_memory = 2 * limits::kGiB;  // of the card, used by others; 0: any
  std::optional<Hours> hours;                       // none: the whole day
};

// What goes on here.
struct Signs {
  std::int64_t unix_seconds = 0;
  std::uint32_t minute = 0;  // of the day, local time
  std::uint32_t games = 0;
  bool on_battery = false;
  std::optional<std::uint64_t> foreign_memory;  // of the card, where it can be asked
};

// The owner's pause comes before any trigger, and a trigger before his drain. A drain becomes a
// pause after kDrainMost. A trigger ends ten seconds after its reason; use of the card
// by others must last three before it is one.
class Availability {
 public:
  explicit Availability(const Triggers& triggers) : triggers_(triggers) {}
  // Nothing: the machine is the swarm's. The same signs give the same words.
  std::optional<Away> judge(TimePoint now, const std::optional<OwnerOrder>& order,
                            const Signs& signs);

 private:
  struct Trigger {
    std::optional<TimePoint> since;  // its reason is there, without a break
    std::optional<TimePoint> until;  // it holds
  };
  bool holds(Trigger& trigger, TimePoint now, bool reason, Duration least) const;
  std::optional<Away> triggered(TimePoint now, const Signs& signs);

  const Triggers triggers_;
  Trigger games_;
  Trigger battery_;
  Trigger foreign_;
  std::optional<TimePoint> drains_since_;
};

}  // namespace hearth::node

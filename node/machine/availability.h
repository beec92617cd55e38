// Availability: decides whether the swarm or the owner uses this machine, from the owner's order
// and the machine's state. A plain state machine: it reads no file and calls no other part.
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

// Time for a drained machine's sequences to end; then it is paused.
inline constexpr Duration kDrainMost = std::chrono::minutes(10);

// The owner's order; it outlives the process.
struct OwnerOrder {
  bool drain = false;      // else pause
  std::int64_t until = 0;  // seconds since 1970; 0: until `hearth resume`
  friend bool operator==(const OwnerOrder&, const OwnerOrder&) = default;
};

// The hours of a day in which the swarm uses the machine: minutes since midnight, local time. They
// may span midnight.
struct Hours {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const Hours&, const Hours&) = default;
};
// "22:00-08:00". kInvalidInput for anything else, and for an empty span.
Result<Hours> parse_hours(std::string_view text);

// The conditions that pause a machine without an order.
struct Triggers {
  bool games = true;                                // GameMode reports a running game
  bool battery = true;                              // the machine runs on battery
  std::uint64_t foreign_memory = 2 * limits::kGiB;  // more of the GPU's, by others; 0: ignored
  std::optional<Hours> hours;                       // nothing: the whole day
};

// The machine's state.
struct Signs {
  std::int64_t unix_seconds = 0;
  std::uint32_t minute = 0;  // of the day, local time
  std::uint32_t games = 0;
  bool on_battery = false;
  std::optional<std::uint64_t> foreign_memory;  // of the GPU, where it has sensors
};

// The owner's pause outranks any trigger, and a trigger outranks the owner's drain. A drain becomes
// a pause after kDrainMost. A trigger ends 10 s after its reason; GPU use by others must last 3 s
// to become a trigger.
class Availability {
 public:
  explicit Availability(const Triggers& triggers) : triggers_(triggers) {}
  // Nothing: the swarm uses the machine. Equal signs give equal texts.
  std::optional<Away> judge(TimePoint now, const std::optional<OwnerOrder>& order,
                            const Signs& signs);

 private:
  struct Trigger {
    std::optional<TimePoint> since;  // begin of its uninterrupted reason
    std::optional<TimePoint> until;  // end of the trigger
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

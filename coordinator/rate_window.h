// RateWindow: events a second over the last ten seconds, in constant memory.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace hearth::coordinator {

class RateWindow {
 public:
  void count(TimePoint now, std::uint64_t events) { slot(now).events += events; }

  double per_second(TimePoint now) const {
    std::uint64_t sum = 0;
    for (const Slot& slot : slots_) {
      if (slot.second > second_of(now) - kSeconds && slot.second <= second_of(now)) {
        sum += slot.events;
      }
    }
    return static_cast<double>(sum) / kSeconds;
  }

 private:
  static constexpr std::int64_t kSeconds = 10;
  struct Slot {
    std::int64_t second = -kSeconds;
    std::uint64_t events = 0;
  };

  static std::int64_t second_of(TimePoint now) {
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
  }
  Slot& slot(TimePoint now) {
    Slot& slot = slots_[static_cast<std::size_t>(second_of(now) % kSeconds)];
    if (slot.second != second_of(now)) slot = {second_of(now), 0};
    return slot;
  }

  std::array<Slot, kSeconds> slots_;
};

}  // namespace hearth::coordinator

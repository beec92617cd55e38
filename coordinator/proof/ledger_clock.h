// LedgerClock: the time of a log. It never goes back, even over a restart, and advances with the
// steady clock. If the wall clock was ahead once, the log's time stays ahead by as much. All times
// in the log, workers' included, use this clock, so that a wrong wall clock costs no receipt.
// unix_seconds() and now(): any thread; the rest: one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/clock.h"

namespace hearth::coordinator {

class LedgerClock final : public Clock {
 public:
  // Normal corrections of the wall clock, ahead or back, stay within these bounds.
  static constexpr std::int64_t kLeapSeconds = 600;
  static constexpr std::int64_t kBackSeconds = 60;
  // The step of a leap with each follow() while receipts or audits are pending. With one call a
  // second, the hour in which a window may be audited then takes more than five minutes.
  static constexpr std::int64_t kBusySeconds = 10;

  explicit LedgerClock(const Clock& wall)
      : wall_(wall), offset_(std::max<std::int64_t>(wall.unix_seconds(), 0) - steady()) {}

  TimePoint now() const override { return wall_.now(); }
  std::int64_t unix_seconds() const override { return steady() + offset_; }
  const Clock& wall() const { return wall_; }

  // The log has an entry of this time.
  void begin_at(std::int64_t unix_seconds) {
    offset_ = std::max<std::int64_t>(offset_, unix_seconds - steady());
  }
  // Once a second or so. `is_busy`: receipts are on their way, or windows wait for their audit.
  void follow(bool is_busy) {
    const std::int64_t wanted = wall_.unix_seconds() - steady();
    if (wanted < offset_ - kBackSeconds) return;
    const bool leaps = wanted > offset_ + kLeapSeconds;
    offset_ = leaps && is_busy ? offset_ + kBusySeconds : wanted;
  }

 private:
  std::int64_t steady() const {
    return std::chrono::duration_cast<std::chrono::seconds>(wall_.now()).count();
  }

  const Clock& wall_;
  std::atomic<std::int64_t> offset_;
};

}  // namespace hearth::coordinator

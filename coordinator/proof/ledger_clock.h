// LedgerClock: the time by which a log is written. It never goes back, not over a restart either,
// and passes as fast as the steady clock does: where the wall clock was ahead once, the log's time
// stays ahead of it by as much. Everything that is measured in the log is measured by this clock,
// workers included, so that a wrong wall clock costs no receipt. unix_seconds() and now(): any
// thread; the rest: one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/clock.h"

namespace hearth::coordinator {

class LedgerClock final : public Clock {
 public:
  // The wall clock may be set ahead by so much, or back, as it is kept right.
  static constexpr std::int64_t kLeapSeconds = 600;
  static constexpr std::int64_t kBackSeconds = 60;
  // Of a leap, with each follow() while what is under way must not become old: with one a second,
  // an hour of the log, in which a window may be audited, is more than five minutes.
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

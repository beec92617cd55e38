// Clock: one of the four seams (Clock, Random, Transport, Store). State machines never ask the
// system for the time; a simulation gives them its own.
#pragma once

#include <chrono>
#include <cstdint>

namespace hearth {

using TimePoint = std::chrono::nanoseconds;  // since an arbitrary start, never goes back
using Duration = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  // Seconds since 1970, for timestamps that people and clients see. Never for logic.
  virtual std::int64_t unix_seconds() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override {
    return std::chrono::duration_cast<Duration>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
  std::int64_t unix_seconds() const override {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace hearth

// SendWatch: whether the other end of a connection takes what it is sent. The kernel acknowledges
// for a client until its buffer is full, so what is seen is a machine that is gone, and a client
// that has not read for as long as that lasts. A plain state machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace hearth::coordinator::http {

// How a connection stands now.
struct Sent {
  std::uint64_t acknowledged = 0;  // bytes since it began
  std::uint64_t waiting = 0;       // that are not, in the kernel or before it, or were not answered
  Duration round_trip{};           // as measured
};

class SendWatch {
 public:
  enum class State : std::uint8_t {
    kReads,
    kStalled,  // until everything has been taken
    kGone,
  };
  static constexpr Duration kEvery = std::chrono::milliseconds(75);
  // Without a byte taken, or so far behind; and twice the way to a far client and back.
  static constexpr Duration kPatience = std::chrono::milliseconds(600);
  static constexpr Duration kRoundTripMost = std::chrono::seconds(1);
  static constexpr std::uint64_t kBehind = 256 * 1024;
  static constexpr std::uint64_t kFar = 3 * kBehind;  // at once

  // `gone`: without a byte taken, from when on nobody waits any more.
  explicit SendWatch(Duration gone) : gone_(gone) {}

  // As often as kEvery, and whenever more waits than kFar.
  State look(const Sent& sent, TimePoint now);

 private:
  const Duration gone_;
  std::uint64_t acknowledged_ = 0;
  std::optional<TimePoint> taken_at_;      // the latest byte, while any waits
  std::optional<TimePoint> behind_since_;  // more than kBehind waits
  bool stalled_ = false;
};

}  // namespace hearth::coordinator::http

#include "proto/link/rate_trial.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/limits.h"

namespace hearth {
namespace {

constexpr double kTimed = 0.02;  // seconds; a shorter time may be one burst of the kernel's timer
constexpr double kLeast = 1e-6;  // nothing on a link is quicker
constexpr std::uint32_t kMost = limits::kPingBytes - 64;  // beside a ping's own bytes
constexpr double kAgain = 0.1;                            // seconds that the repeated bytes take
constexpr std::array kSizes = {RateTrial::Pings{1, 64 * 1024},  RateTrial::Pings{1, 128 * 1024},
                               RateTrial::Pings{1, 256 * 1024}, RateTrial::Pings{1, 512 * 1024},
                               RateTrial::Pings{1, kMost},      RateTrial::Pings{8, kMost}};

static_assert(kSizes.back().bytes < limits::kPingBytes, "the largest ping fits its limit");

}  // namespace

RateTrial::Pings RateTrial::next() const {
  INVARIANT(size_ < kSizes.size(), "a trial ends at the largest size");
  return kSizes[size_];
}

bool RateTrial::took(double seconds) {
  const Pings sent = next();
  bytes_per_second_ = static_cast<double>(sent.count) * sent.bytes / std::max(kLeast, seconds);
  if (size_ + 1 == kSizes.size()) return true;
  // The first time may have been long because the machine was busy. A burst of kTimed adds at most
  // two fifths to the rate of the second.
  if (seconds < (is_again_ ? kAgain / 2 : kTimed)) {
    ++size_;
    return false;
  }
  if (is_again_) return true;
  is_again_ = true;
  while (size_ > 0 && kSizes[size_ - 1].bytes >= kAgain * bytes_per_second_) --size_;
  return false;
}

}  // namespace hearth

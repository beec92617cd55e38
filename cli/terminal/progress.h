// A progress bar on stderr: message, percentage, bar, bytes, rate, time left. A terminal gets one
// line redrawn; anything else gets a plain line now and then.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "base/clock.h"

namespace hearth::cli {

std::string format_bytes(std::uint64_t bytes);  // "1.2 GB", decimal units as disks are sold

class ProgressBar {
 public:
  // `already`: bytes of an earlier, interrupted run; they count as done but not in the rate.
  ProgressBar(std::string message, std::uint64_t total, std::uint64_t already, bool quiet = false);
  void set(std::uint64_t done);
  void finish();

 private:
  std::string line(TimePoint now) const;
  double rate(TimePoint now) const;  // bytes a second over the last ten seconds

  std::string message_;
  std::uint64_t total_;
  std::uint64_t already_;
  std::uint64_t done_;
  bool quiet_;
  bool terminal_;
  SystemClock clock_;
  TimePoint drawn_{};
  std::deque<std::pair<TimePoint, std::uint64_t>> history_;
};

}  // namespace hearth::cli

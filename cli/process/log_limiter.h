// LogLimiter: decides which lines of a log are written. Peers can cause any number of warnings, and
// these must neither fill the disk nor push other lines out of the log.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace hearth::cli {

// Not thread-safe.
class LogLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::uint32_t kBurst = 100;          // lines of one kind at once, then
  static constexpr std::chrono::seconds kInterval{10};  // one in so long
  static constexpr std::size_t kKinds = 256;            // all others share one

  // The number of lines of the same kind that were left out before this one; nothing: this line is
  // left out, too.
  std::optional<std::uint64_t> admit(std::string_view line, Time now);

 private:
  struct Kind {
    double tokens = kBurst;
    Time filled{};
    std::uint64_t left_out = 0;
  };
  void forget(Time now);

  std::map<std::string, Kind> kinds_;
};

}  // namespace hearth::cli

// LogLimiter: which lines of a log are written. Peers of a process decide how often there is
// something to warn of, and must neither fill a disk nor turn over what the log holds.
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

  // How many lines of the same kind were left out before this one; nothing: this one is, too.
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

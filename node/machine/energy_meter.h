// EnergyMeter: the energy in joules that the GPU or the processors have used, other programs' share
// included.
//
// Processors: the counters in Linux's powercap folder (intel-rapl, for Intel and AMD), which most
// systems let only root read. GPU: its watts times the time between two readings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace hearth::node {

class EnergyMeter {
 public:
  // A meter for the machine's processors. `clock` must outlive it.
  explicit EnergyMeter(const Clock& clock,
                       const std::filesystem::path& powercap = "/sys/class/powercap");
  // A meter for a GPU, whose power `watts` reads.
  EnergyMeter(const Clock& clock, std::function<std::optional<double>()> watts);

  // Joules since the meter began, read at most once a second; never falls. Nothing without a
  // source. One thread.
  std::optional<double> joules();

 private:
  struct Counter {
    std::filesystem::path file;  // energy_uj
    std::uint64_t last = 0;      // microjoules
    std::uint64_t range = 0;     // the largest value, after which it begins at 0 again
  };
  double read_counters();
  double read_watts(double seconds);

  const Clock& clock_;
  const std::function<std::optional<double>()> watts_;  // null: the counters count
  std::vector<Counter> counters_;
  TimePoint read_at_;
  double joules_ = 0.0;
  bool known_ = false;
};

}  // namespace hearth::node

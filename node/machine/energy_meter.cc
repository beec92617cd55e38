#include "node/machine/energy_meter.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace hearth::node {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPackages = 64;  // of one machine
constexpr Duration kEvery = std::chrono::seconds(1);
// The last watts count for at most this time, in case the machine slept.
constexpr double kLongest = 10.0;  // seconds
constexpr double kMicrojoules = 1e-6;

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t value = 0;
  if (!(stream >> value)) return std::nullopt;
  return value;
}

// A package holds its parts (cores, memory), which are folders of their own.
bool is_package(const fs::path& folder) {
  std::string name;
  std::ifstream stream(folder / "name");
  std::getline(stream, name);
  return name.starts_with("package");
}

}  // namespace

EnergyMeter::EnergyMeter(const Clock& clock, const fs::path& powercap)
    : clock_(clock), read_at_(clock.now()) {
  std::error_code error;
  fs::directory_iterator folders(powercap, error);
  for (; !error && folders != fs::directory_iterator() && counters_.size() < kPackages;
       folders.increment(error)) {
    const fs::path& folder = folders->path();
    if (!is_package(folder)) continue;
    const auto now = number_in(folder / "energy_uj");
    const auto range = number_in(folder / "max_energy_range_uj");
    if (now && range) counters_.push_back({folder / "energy_uj", *now, *range});
  }
  known_ = !counters_.empty();
}

EnergyMeter::EnergyMeter(const Clock& clock, std::function<std::optional<double>()> watts)
    : clock_(clock), watts_(std::move(watts)), read_at_(clock.now()) {}

double EnergyMeter::read_counters() {
  std::uint64_t drawn = 0;
  for (Counter& counter : counters_) {
    const auto now = number_in(counter.file);
    if (!now) continue;
    if (*now >= counter.last) {
      drawn += *now - counter.last;
    } else if (counter.last <= counter.range) {
      drawn += counter.range - counter.last + *now;
    }
    counter.last = *now;
  }
  return static_cast<double>(drawn) * kMicrojoules;
}

double EnergyMeter::read_watts(double seconds) {
  const std::optional<double> watts = watts_();
  if (!watts || !std::isfinite(*watts) || *watts < 0.0) return 0.0;
  known_ = true;
  return *watts * std::min(seconds, kLongest);
}

std::optional<double> EnergyMeter::joules() {
  const TimePoint now = clock_.now();
  if (now - read_at_ >= kEvery) {
    const double seconds = std::chrono::duration<double>(now - read_at_).count();
    const double drawn = watts_ ? read_watts(seconds) : read_counters();
    INVARIANT(drawn >= 0.0, "what was drawn only grows");
    joules_ += drawn;
    read_at_ = now;
  }
  if (!known_) return std::nullopt;
  return joules_;
}

}  // namespace hearth::node

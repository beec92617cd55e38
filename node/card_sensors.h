// What a card says of itself and of whom it serves, through NVML, which is looked for at run time:
// nothing is linked, and a machine without it has no readings.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace hearth::node {

struct CardReading {
  // Absent where the card does not tell.
  std::optional<std::uint32_t> celsius;
  std::optional<double> watts;
  std::optional<std::uint32_t> busy_percent;    // of the last second or so, of everybody
  std::optional<std::uint64_t> memory_used;     // bytes, of everybody and the driver
  std::optional<std::uint64_t> foreign_memory;  // bytes of other processes
};

class CardSensors {
 public:
  // `bus_id`: of PCI, as kernels::cuda::DeviceInfo has it. kUnavailable where the library, one of
  // its functions or the card is not there.
  static Result<std::unique_ptr<CardSensors>> open(
      const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");
  virtual ~CardSensors() = default;
  // From one thread at a time; some milliseconds on a card that sleeps.
  virtual CardReading read() const = 0;
};

// "61 C, 310 W, 97 % busy, 20.1 GB used, 1.2 GB of it by others"; what is not known is left out.
std::string text_of(const CardReading& reading);

}  // namespace hearth::node

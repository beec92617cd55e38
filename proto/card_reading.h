// The readings of a GPU: a worker's heartbeat carries them, and the status shows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hearth {

namespace control::v1 {
class CardReading;
}

struct CardReading {
  // Absent where the GPU does not report it.
  std::optional<std::uint32_t> celsius;
  std::optional<double> watts;
  std::optional<std::uint32_t> busy_percent;    // of about the last second, by all processes
  std::optional<std::uint64_t> memory_used;     // bytes, by all processes and the driver
  std::optional<std::uint64_t> foreign_memory;  // bytes of other processes
  friend bool operator==(const CardReading&, const CardReading&) = default;
};

// "61 C, 310 W, 97 % busy, 20.1 GB used, 1.2 GB of it by others", without the absent readings.
std::string text_of(const CardReading& reading);

void write_card(const CardReading& reading, control::v1::CardReading& message);
// Leaves out impossible figures, such as watts that are NaN.
CardReading read_card(const control::v1::CardReading& message);

}  // namespace hearth

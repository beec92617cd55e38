// A card's readings, on their way from a worker's heartbeat to a client that asks for the state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hearth {

namespace control::v1 {
class CardReading;
}

struct CardReading {
  // Absent where the card does not tell.
  std::optional<std::uint32_t> celsius;
  std::optional<double> watts;
  std::optional<std::uint32_t> busy_percent;    // of the last second or so, of everybody
  std::optional<std::uint64_t> memory_used;     // bytes, of everybody and the driver
  std::optional<std::uint64_t> foreign_memory;  // bytes of other processes
  friend bool operator==(const CardReading&, const CardReading&) = default;
};

// "61 C, 310 W, 97 % busy, 20.1 GB used, 1.2 GB of it by others"; what is not known is left out.
std::string text_of(const CardReading& reading);

void write_card(const CardReading& reading, control::v1::CardReading& message);
// Figures that no card has, such as watts that are no number, are left out.
CardReading read_card(const control::v1::CardReading& message);

}  // namespace hearth

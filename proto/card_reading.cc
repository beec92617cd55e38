#include "proto/card_reading.h"

#include <cstdio>

#include "proto/control.pb.h"

namespace hearth {
namespace {

constexpr double kWattsMost = 1e5;

void append(std::string& text, const char* format, double value) {
  char part[64];
  std::snprintf(part, sizeof part, format, value);
  text += (text.empty() ? "" : ", ") + std::string(part);
}

}  // namespace

std::string text_of(const CardReading& reading) {
  std::string text;
  if (reading.celsius) append(text, "%.0f C", *reading.celsius);
  if (reading.watts) append(text, "%.0f W", *reading.watts);
  if (reading.busy_percent) append(text, "%.0f %% busy", *reading.busy_percent);
  if (reading.memory_used) {
    append(text, "%.1f GB used", static_cast<double>(*reading.memory_used) / 1e9);
  }
  if (reading.foreign_memory) {
    append(text, "%.1f GB of it by others", static_cast<double>(*reading.foreign_memory) / 1e9);
  }
  return text;
}

void write_card(const CardReading& reading, control::v1::CardReading& message) {
  if (reading.celsius) message.set_celsius(*reading.celsius);
  if (reading.watts) message.set_watts(*reading.watts);
  if (reading.busy_percent) message.set_busy_percent(*reading.busy_percent);
  if (reading.memory_used) message.set_memory_used(*reading.memory_used);
  if (reading.foreign_memory) message.set_foreign_memory(*reading.foreign_memory);
}

CardReading read_card(const control::v1::CardReading& message) {
  CardReading reading;
  if (message.has_celsius()) reading.celsius = message.celsius();
  if (message.has_watts() && message.watts() >= 0.0 && message.watts() <= kWattsMost) {
    reading.watts = message.watts();
  }
  if (message.has_busy_percent()) reading.busy_percent = message.busy_percent();
  if (message.has_memory_used()) reading.memory_used = message.memory_used();
  if (message.has_foreign_memory()) reading.foreign_memory = message.foreign_memory();
  return reading;
}

}  // namespace hearth

#include "cli/terminal/date_text.h"

#include <ctime>

namespace hearth::cli {

std::string date_text(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  char text[32] = "-";
  if (localtime_r(&time, &parts) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  }
  return text;
}

}  // namespace hearth::cli

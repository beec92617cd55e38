#include "cli/command/values.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/limits.h"
#include "base/number.h"
#include "cli/models/models.h"

namespace hearth::cli {
namespace {

constexpr double kSecondsMax = 1e6;

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

// Short enough for one line, and without characters that control a terminal.
std::string shown(const std::string& value) { return "'" + value.substr(0, 64) + "'"; }

}  // namespace

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  const std::string range = message_of(low, " to ", high);
  const auto check = [low, high, range](const std::string& text) -> std::string {
    const auto value = parse_number<std::int64_t>(text);
    if (value && *value >= low && *value <= high) return "";
    return shown(text) + " is refused; it must be a whole number from " + range;
  };
  return CLI::Validator(check, range);
}

CLI::Validator number(double low, double high, Low included) {
  const std::string range = included == Low::kIncluded
                                ? "from " + short_number(low) + " to " + short_number(high)
                                : "above " + short_number(low) + ", at most " + short_number(high);
  const auto check = [low, high, included, range](const std::string& text) -> std::string {
    char* end = nullptr;
    // As a float: a value that rounds to the excluded bound is refused with it.
    const double value = std::strtof(text.c_str(), &end);
    const bool numeric = !text.empty() && end == text.c_str() + text.size();
    // Never "value < low": NaN is outside every range.
    const bool inside = (included == Low::kIncluded ? value >= low : value > low) && value <= high;
    if (numeric && inside) return "";
    return shown(text) + " is refused; it must be a number " + range;
  };
  return CLI::Validator(check, range);
}

CLI::Validator seconds() { return number(0, kSecondsMax).description("0 to 1000000"); }

CLI::Validator duration(std::uint32_t low, std::uint32_t high) {
  const auto change = [low, high](std::string& text) -> std::string {
    std::uint64_t value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    const std::string_view unit(end, static_cast<std::size_t>(last - end));
    std::uint64_t each = 0;
    if (unit.empty() || unit == "s") each = 1;
    if (unit == "m") each = 60;
    if (unit == "h") each = 3'600;
    if (unit == "d") each = 24 * 3'600;
    const bool read = error == std::errc() && each != 0 && value <= high;
    if (read && value * each >= low && value * each <= high) {
      text = std::to_string(value * each);
      return "";
    }
    return message_of(shown(text), " is refused; it must be a time like 30m, 24h or 7d, from ", low,
                      " to ", high, " seconds");
  };
  return CLI::Validator(change, "TIME");
}

CLI::Validator log_level() {
  const auto check = [](const std::string& text) -> std::string {
    for (const char* level : {"trace", "debug", "info", "warn", "error", "off"}) {
      if (text == level) return "";
    }
    return shown(text) + " is refused; it must be trace, debug, info, warn, error or off";
  };
  return CLI::Validator(check, "");
}

CLI::Validator memory_size(std::uint64_t low, std::uint64_t high) {
  const auto change = [low, high](std::string& text) -> std::string {
    const std::string given = text;
    std::string wrong;
    try {
      wrong = CLI::AsSizeValue(false)(text);
    } catch (const CLI::ParseError& unreadable) {
      wrong = unreadable.what();
    }
    const auto bytes = parse_number<std::uint64_t>(text);
    const bool begins = given.find_first_of("0123456789") == 0;  // CLI11 takes "MB" for one
    if (begins && wrong.empty() && bytes && *bytes >= low && *bytes <= high) return "";
    return message_of(shown(given), " is refused; it must be a size such as 512MB, from ", low,
                      " to ", high, " bytes");
  };
  return CLI::Validator(change, "e.g. 512MB");
}

CLI::Validator verify_text() { return CLI::IsMember({"none", "spot", "full"}); }

CLI::Validator level_text() {
  return CLI::IsMember({"newcomer", "probation", "regular", "veteran"});
}

CLI::Validator text_within(std::size_t bytes) {
  const auto check = [bytes](const std::string& text) -> std::string {
    if (!text.empty() && text.size() <= bytes) return "";
    return shown(text) + " is refused; it must have 1 to " + std::to_string(bytes) + " bytes";
  };
  return CLI::Validator(check, "");
}

CLI::Validator stop_string() { return text_within(limits::kStopStringBytes); }

CLI::Validator model_name_text() { return refused_by(check_model_name); }

CLI::Validator sha256_text() {
  const auto check = [](const std::string& text) -> std::string {
    const bool digits = text.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (digits && text.size() == 64) return "";
    return shown(text) + " is refused; it must be 64 lower-case hexadecimal digits";
  };
  return CLI::Validator(check, "");
}

}  // namespace hearth::cli

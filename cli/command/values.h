// Checks of option values. Each names the limits in its message; CLI11 prepends the option's name.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace hearth::cli {

// Refuses what `parse` returns an error for, with its message.
template <typename Parse>
CLI::Validator refused_by(Parse parse, const std::string& description = "") {
  const auto check = [parse](const std::string& text) -> std::string {
    const auto parsed = parse(text);
    return parsed.ok() ? "" : parsed.error().message;
  };
  return CLI::Validator(check, description);
}

CLI::Validator whole_number(std::int64_t low, std::int64_t high);

enum class Low { kIncluded, kExcluded };
CLI::Validator number(double low, double high, Low included = Low::kIncluded);

// Seconds to wait; 0 has the meaning that the option's text gives it.
CLI::Validator seconds();

// "90", "30m", "24h" or "7d"; becomes the number of seconds.
CLI::Validator duration(std::uint32_t low, std::uint32_t high);

CLI::Validator log_level();

// "512MB", "2GiB" or bytes; becomes the number of bytes.
CLI::Validator memory_size(std::uint64_t low, std::uint64_t high);
inline constexpr std::uint64_t kMemoryMax = std::uint64_t{1} << 50;  // 1 PiB

// none, spot or full; and the names of levels.
CLI::Validator verify_text();
CLI::Validator level_text();

CLI::Validator text_within(std::size_t bytes);
CLI::Validator stop_string();
CLI::Validator model_name_text();
CLI::Validator sha256_text();

}  // namespace hearth::cli

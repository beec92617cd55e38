// A moment for a table.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

std::string date_text(std::int64_t unix_seconds);  // "2026-03-01 14:05", local time

}  // namespace hearth::cli

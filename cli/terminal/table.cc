#include "cli/terminal/table.h"

#include <algorithm>
#include <ctime>

#include "base/check.h"
#include "cli/terminal/escape.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kGap = 2;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

}  // namespace

void Table::add(std::vector<std::string> row) {
  INVARIANT(row.size() == rows_.front().size(), "a row with other columns than the head");
  for (std::string& cell : row) cell = escape_control(cell);
  rows_.push_back(std::move(row));
}

std::vector<std::string> Table::lines() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], text_columns(row[i]));
    }
  }
  std::vector<std::string> lines;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - text_columns(row[i]) + kGap, ' ');
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::size_t text_columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string_view clip_columns(std::string_view text, std::size_t columns) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_character(text[i]) && seen++ == columns) return text.substr(0, i);
  }
  return text;
}

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

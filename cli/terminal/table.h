// A table as people read it: a head, columns as wide as their widest cell, left-aligned, no
// borders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  // As many cells as the head has. Control characters are escaped here.
  void add(std::vector<std::string> row);
  std::vector<std::string> lines() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Characters of UTF-8, each taken as one column.
std::size_t text_columns(std::string_view text);
// Its first `columns` characters.
std::string_view clip_columns(std::string_view text, std::size_t columns);
std::string date_text(std::int64_t unix_seconds);  // "2026-03-01 14:05", local time

}  // namespace hearth::cli

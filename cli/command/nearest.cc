#include "cli/command/nearest.h"

#include <algorithm>

namespace hearth::cli {
namespace {

constexpr std::size_t kWordBytes = 64;  // no known word is longer; the table stays small

}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to) {
  const std::size_t width = to.size() + 1;
  std::vector<std::size_t> table((from.size() + 1) * width);
  for (std::size_t i = 0; i <= from.size(); ++i) table[i * width] = i;
  for (std::size_t j = 0; j < width; ++j) table[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t replaced = from[i - 1] == to[j - 1] ? 0 : 1;
      std::size_t best = std::min(table[(i - 1) * width + j], table[i * width + j - 1]) + 1;
      best = std::min(best, table[(i - 1) * width + j - 1] + replaced);
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        best = std::min(best, table[(i - 2) * width + j - 2] + 1);
      }
      table[i * width + j] = best;
    }
  }
  return table.back();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  word = word.substr(0, kWordBytes);
  const auto distance = [&](const std::string& other) { return edit_distance(word, other); };
  const auto nearest = std::ranges::min_element(known, {}, distance);
  const std::size_t near = std::max<std::size_t>(1, word.size() / 3);
  if (nearest == known.end() || distance(*nearest) > near) return "";
  return "; did you mean '" + *nearest + "'?";
}

}  // namespace hearth::cli

#include "cli/command/nearest.h"

#include <algorithm>

namespace hearth::cli {
namespace {

constexpr std::size_t kOffered = 3;
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

std::string did_you_mean(std::string_view word, std::vector<std::string> known) {
  if (known.empty()) return "";
  word = word.substr(0, kWordBytes);
  std::stable_sort(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
  const std::size_t near = std::max<std::size_t>(1, word.size() / 3);
  if (edit_distance(word, known.front()) <= near || known.size() == 1) {
    return "; did you mean '" + known.front() + "'?";
  }
  known.resize(std::min(known.size(), kOffered));
  std::string list;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (i > 0) list += i + 1 == known.size() ? " or " : ", ";
    list += "'" + known[i] + "'";
  }
  return "; did you mean " + list + "?";
}

}  // namespace hearth::cli

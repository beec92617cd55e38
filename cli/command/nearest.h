// Suggestions for words that nobody knows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::cli {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
std::size_t edit_distance(std::string_view from, std::string_view to);

// "; did you mean 'run'?": the nearest of the known words, or the three nearest where none is near.
// Empty when nothing is known.
std::string did_you_mean(std::string_view word, std::vector<std::string> known);

}  // namespace hearth::cli

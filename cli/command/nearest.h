// Suggestions for unknown words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::cli {

// The number of insertions, deletions, replacements and swaps of neighbours between two words.
std::size_t edit_distance(std::string_view from, std::string_view to);

// "; did you mean 'run'?": the nearest of the known words; empty where none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace hearth::cli

// Vocabularies that write a space as U+2581.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace hearth::model {

inline constexpr std::string_view kVisibleSpace = "\xE2\x96\x81";  // U+2581

// `prefix`: one more at the start.
inline std::string with_visible_spaces(std::string_view text, bool prefix) {
  const auto spaces = static_cast<std::size_t>(std::count(text.begin(), text.end(), ' '));
  std::string visible;
  visible.reserve(text.size() + (spaces + 1) * (kVisibleSpace.size() - 1) + 1);
  if (prefix) visible += kVisibleSpace;
  for (const char c : text) {
    if (c == ' ') {
      visible += kVisibleSpace;
    } else {
      visible += c;
    }
  }
  return visible;
}

inline std::string without_visible_spaces(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const bool space = text.substr(at).starts_with(kVisibleSpace);
    bytes += space ? ' ' : text[at];
    at += space ? kVisibleSpace.size() : 1;
  }
  return bytes;
}

}  // namespace hearth::model

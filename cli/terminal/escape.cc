#include "cli/terminal/escape.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "model/gguf/untrusted_text.h"

namespace hearth::cli {
namespace {

// The bytes of the character that begins here; 1 for a byte that begins none.
std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t bytes = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return model::is_utf8(text.substr(0, bytes)) ? bytes : 1;
}

// The length of a whole character; 1 for an invalid byte.
bool is_printable(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) >= ' ' && byte(0) < 0x7F;
  return byte(0) != 0xC2 || byte(1) > 0x9F;
}

// U+202A to U+202E and U+2066 to U+2069: they reorder the text beside them.
bool reorders(std::string_view character) {
  const std::string_view last = character.substr(character.size() - 1);
  return (character.substr(0, 2) == "\xE2\x80" && last >= "\xAA" && last <= "\xAE") ||
         (character.substr(0, 2) == "\xE2\x81" && last >= "\xA6" && last <= "\xA9");
}

std::string escape(std::string_view text, std::string_view kept) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, character_bytes(text));
    text.remove_prefix(one.size());
    const bool shown = is_printable(one) && !reorders(one);
    if (shown || kept.find(one.front()) != std::string_view::npos) {
      out += one;
      continue;
    }
    for (const char c : one) {
      const auto byte = static_cast<unsigned char>(c);
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

}  // namespace

std::string escape_control(std::string_view text) { return escape(text, ""); }
std::string escape_lines(std::string_view text) { return escape(text, "\n\t"); }

void print_foreign(std::string_view text) {
  const std::string shown = isatty(STDOUT_FILENO) == 1 ? escape_lines(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

std::string escape_json(std::string_view json) {
  std::string out;
  while (!json.empty()) {
    const std::string_view one = json.substr(0, character_bytes(json));
    json.remove_prefix(one.size());
    const auto last = static_cast<unsigned char>(one.back());
    // JSON has bytes below space only between values.
    if (is_printable(one) || last < ' ') {
      out += one;
      continue;
    }
    constexpr char kDigits[] = "0123456789abcdef";
    out += {'\\', 'u', '0', '0', kDigits[last >> 4], kDigits[last & 15]};
  }
  return out;
}

void print_escaped(const nlohmann::ordered_json& json) {
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  std::printf("%s\n", escape_json(json.dump(-1, ' ', false, kReplace)).c_str());
}

}  // namespace hearth::cli

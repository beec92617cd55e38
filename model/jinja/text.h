// Unicode facts that template strings need: characters of UTF-8, white space and simple case
// mapping as Python has them. Bytes that are not UTF-8 count as one character each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hearth::model::jinja {

struct Character {
  std::uint32_t code = 0;  // kBrokenCharacter for a byte that starts no UTF-8 character
  std::size_t length = 1;  // bytes
};
inline constexpr std::uint32_t kBrokenCharacter = 0x110000;

// The character that starts at text[at]; at < text.size().
Character character_at(std::string_view text, std::size_t at);
std::size_t count_characters(std::string_view text);
// Byte offset of the character with this index; text.size() when there are fewer.
// Start of the last character of text[0, end); end > 0.
std::size_t previous_character(std::string_view text, std::size_t end);
std::size_t character_offset(std::string_view text, std::size_t index);

bool is_space(std::uint32_t code);          // str.isspace
bool is_line_boundary(std::uint32_t code);  // str.splitlines
// One character to one character.
std::uint32_t to_upper(std::uint32_t code);
std::uint32_t to_lower(std::uint32_t code);
bool is_cased(std::uint32_t code);
// The same as text: \u00df becomes SS. The other letters of several large ones (ligatures, Greek
// with iota) stay as they are.
void append_upper(std::string& out, std::uint32_t code);
void append_lower(std::string& out, std::uint32_t code);
// As append_lower, for the character at text[at]. The characters around it matter: a capital sigma
// at the end of a word becomes a final one.
void append_lower_at(std::string& out, std::string_view text, std::size_t at);

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};
// The text without white space at the given sides.
Range strip_space(std::string_view text, bool left, bool right);
// The same without any of these characters.
Range strip_characters(std::string_view text, std::string_view characters, bool left, bool right);
// Linear in both lengths; npos when absent.
std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from);

}  // namespace hearth::model::jinja

#include "model/jinja/text.h"

#include <cstring>

#include "base/utf8.h"

namespace hearth::model::jinja {
namespace {

bool continuation(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

bool contains_character(std::string_view characters, std::string_view wanted) {
  for (std::size_t at = 0; at < characters.size();) {
    const std::size_t length = character_at(characters, at).length;
    if (characters.substr(at, length) == wanted) return true;
    at += length;
  }
  return false;
}

template <typename Predicate>
Range strip_where(std::string_view text, bool left, bool right, Predicate drop) {
  Range range{0, text.size()};
  while (left && range.begin < range.end) {
    const std::size_t length = character_at(text, range.begin).length;
    if (!drop(text.substr(range.begin, length))) break;
    range.begin += length;
  }
  while (right && range.begin < range.end) {
    const std::size_t start = previous_character(text, range.end);
    if (!drop(text.substr(start, range.end - start))) break;
    range.end = start;
  }
  return range;
}

}  // namespace

// ASCII apart: within its steps a rendering may strip hundreds of megabytes of it.
Character character_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  const Utf8Char one = decode_utf8(text, at);
  return one.valid ? Character{one.point, one.bytes} : Character{kBrokenCharacter, 1};
}

std::size_t previous_character(std::string_view text, std::size_t end) {
  if (static_cast<unsigned char>(text[end - 1]) < 0x80) return end - 1;
  for (std::size_t back = 1; back <= 4 && back <= end; ++back) {
    if (continuation(text, end - back)) continue;
    return character_at(text, end - back).length == back ? end - back : end - 1;
  }
  return end - 1;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).length) ++count;
  return count;
}

std::size_t character_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += character_at(text, at).length;
  return at;
}

bool is_space(std::uint32_t code) {
  if (code == ' ' || (code >= 9 && code <= 13) || (code >= 28 && code <= 31)) return true;
  if (code < 0x85) return false;
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_line_boundary(std::uint32_t code) {
  return (code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

Range strip_space(std::string_view text, bool left, bool right) {
  return strip_where(text, left, right,
                     [](std::string_view one) { return is_space(character_at(one, 0).code); });
}

Range strip_characters(std::string_view text, std::string_view characters, bool left, bool right) {
  return strip_where(text, left, right, [characters](std::string_view one) {
    return contains_character(characters, one);
  });
}

std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  // memmem is the two-way algorithm; std::string_view::find is quadratic on hostile text.
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace hearth::model::jinja

#include "base/utf8.h"

namespace hearth {
namespace {

// The meaning of a first byte: the length of its character and the range of its second byte. These
// ranges are what excludes overlong forms, surrogates and points past U+10FFFF.
struct Lead {
  std::uint32_t bytes = 0;  // 0: no character starts with this byte
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
};

Lead lead_of(std::uint8_t first) {
  if (first < 0x80) return {.bytes = 1};
  if (first < 0xC2) return {};
  if (first < 0xE0) return {.bytes = 2};
  if (first == 0xE0) return {.bytes = 3, .low = 0xA0};
  if (first == 0xED) return {.bytes = 3, .high = 0x9F};
  if (first < 0xF0) return {.bytes = 3};
  if (first == 0xF0) return {.bytes = 4, .low = 0x90};
  if (first < 0xF4) return {.bytes = 4};
  if (first == 0xF4) return {.bytes = 4, .high = 0x8F};
  return {};
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, std::size_t offset) {
  if (offset >= text.size()) return {};
  const auto first = static_cast<std::uint8_t>(text[offset]);
  const Lead lead = lead_of(first);
  if (lead.bytes == 0) return {.bytes = 1};
  if (lead.bytes == 1) return {.point = first, .bytes = 1, .valid = true};
  char32_t point = first & (0x7FU >> lead.bytes);
  for (std::uint32_t i = 1; i < lead.bytes; ++i) {
    if (offset + i == text.size()) return {.bytes = i, .cut = true};
    const auto next = static_cast<std::uint8_t>(text[offset + i]);
    const std::uint8_t low = i == 1 ? lead.low : 0x80;
    const std::uint8_t high = i == 1 ? lead.high : 0xBF;
    if (next < low || next > high) return {.bytes = i};
    point = (point << 6) | (next & 0x3FU);
  }
  return {.point = point, .bytes = lead.bytes, .valid = true};
}

void append_utf8(char32_t point, std::string& out) {
  if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) point = kReplacement;
  if (point < 0x80) {
    out += static_cast<char>(point);
    return;
  }
  int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  // The first byte begins with as many ones as the character has bytes.
  out += static_cast<char>((0xFF00U >> (more + 1)) | (point >> (6 * more)));
  while (more-- > 0) out += static_cast<char>(0x80 | ((point >> (6 * more)) & 0x3F));
}

}  // namespace hearth

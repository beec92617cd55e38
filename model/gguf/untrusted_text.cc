#include "model/gguf/untrusted_text.h"

#include <algorithm>
#include <cstddef>

namespace hearth::model {
namespace {

constexpr std::size_t kQuotedBytes = 80;

// Length of the sequence that `lead` starts, 0 when it starts none, and the range that its second
// byte must lie in (RFC 3629, section 4).
struct Sequence {
  std::size_t length;
  unsigned char second_low;
  unsigned char second_high;
};

Sequence sequence_of(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

bool is_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const Sequence sequence = sequence_of(byte(0));
    if (sequence.length == 0 || sequence.length > text.size() - at) return false;
    if (sequence.length > 1 && (byte(1) < sequence.second_low || byte(1) > sequence.second_high)) {
      return false;
    }
    for (std::size_t i = 2; i < sequence.length; ++i) {
      if (byte(i) < 0x80 || byte(i) > 0xBF) return false;
    }
    at += sequence.length;
  }
  return true;
}

bool has_control_bytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

std::string quote(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kQuotedBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  out += text.size() > kQuotedBytes ? "...'" : "'";
  return out;
}

}  // namespace hearth::model

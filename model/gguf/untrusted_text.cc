#include "model/gguf/untrusted_text.h"

#include <algorithm>
#include <cstddef>

#include "base/utf8.h"

namespace hearth::model {
namespace {

constexpr std::size_t kQuotedBytes = 80;

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char one = decode_utf8(text, at);
    if (!one.valid) return false;
    at += one.bytes;
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

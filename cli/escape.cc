#include "cli/escape.h"

namespace hearth::cli {

std::string escape_control(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  const auto escape = [&](unsigned char byte) {
    out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (byte == 0xC2 && next >= 0x80 && next <= 0x9F) {
      escape(byte);
      escape(static_cast<unsigned char>(next));
      ++i;
    } else if (byte >= ' ' && byte != 0x7F) {
      out += text[i];
    } else {
      escape(byte);
    }
  }
  return out;
}

}  // namespace hearth::cli

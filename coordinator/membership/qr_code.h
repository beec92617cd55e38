// A QR code (ISO/IEC 18004) of a command with a join token, for a camera. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth::coordinator {

// The light frame around a code, in modules: the standard's, and the half of it, with which a join
// token's code fits a terminal of 24 lines and which cameras accept, too.
inline constexpr std::uint32_t kQrFrame = 4;
inline constexpr std::uint32_t kQrTerminalFrame = 2;

class QrCode {
 public:
  // With the lowest error correction, because a screen has no stains and a small code fits more
  // terminals. kInvalidInput for an empty text and for one over limits::kQrTextBytes.
  static Result<QrCode> of(std::string_view text);

  // Modules of one side, with the frame.
  std::uint32_t size() const { return size_; }
  bool is_dark(std::uint32_t x, std::uint32_t y) const { return dark_[y * size_ + x]; }

  // The dark modules as the path of an SVG whose viewBox is "0 0 size size".
  std::string svg_path() const;
  // For a terminal with UTF-8, with kQrTerminalFrame and two rows of modules a line: half blocks,
  // black on white by ANSI colours, because a camera may refuse an inverted code.
  std::vector<std::string> terminal_lines() const;
  std::uint32_t terminal_columns() const { return size_ - 2 * (kQrFrame - kQrTerminalFrame); }

 private:
  explicit QrCode(std::uint32_t size) : size_(size), dark_(std::size_t{size} * size, false) {}

  std::uint32_t size_;
  std::vector<bool> dark_;  // row by row
};

}  // namespace hearth::coordinator

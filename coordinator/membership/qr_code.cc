#include "coordinator/membership/qr_code.h"

#include <qrencode.h>

#include <memory>

#include "base/bytes.h"
#include "base/check.h"
#include "base/limits.h"

namespace hearth::coordinator {
namespace {

constexpr const char* kBlackOnWhite = "\033[38;5;16;48;5;231m";
constexpr const char* kPlain = "\033[0m";
constexpr const char* kUpper = "\xE2\x96\x80";  // U+2580 to U+2588: halves of a cell
constexpr const char* kLower = "\xE2\x96\x84";
constexpr const char* kFull = "\xE2\x96\x88";

static_assert(kQrTerminalFrame < kQrFrame, "each pair of rows ends within the frame");

struct FreeQr {
  void operator()(QRcode* code) const { QRcode_free(code); }
};

}  // namespace

Result<QrCode> QrCode::of(std::string_view text) {
  REQUIRE(!text.empty() && text.size() <= limits::kQrTextBytes, "a QR code holds 1 to ",
          limits::kQrTextBytes, " bytes, got ", text.size());
  const std::unique_ptr<QRcode, FreeQr> made(
      QRcode_encodeData(static_cast<int>(text.size()),
                        reinterpret_cast<const unsigned char*>(text.data()), 0, QR_ECLEVEL_L));
  INVARIANT(made != nullptr && made->width > 0, "the largest version holds 2,953 bytes");
  const auto width = static_cast<std::uint32_t>(made->width);
  QrCode code(width + 2 * kQrFrame);
  for (std::uint32_t y = 0; y < width; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      const bool dark = (made->data[y * width + x] & 1) != 0;
      code.dark_[(y + kQrFrame) * code.size_ + x + kQrFrame] = dark;
    }
  }
  return code;
}

std::string QrCode::svg_path() const {
  std::string path;
  for (std::uint32_t y = 0; y < size_; ++y) {
    for (std::uint32_t x = 0; x < size_; ++x) {
      if (!is_dark(x, y)) continue;
      std::uint32_t end = x;
      while (is_dark(end, y)) ++end;  // the frame is light, so it ends
      path += message_of("M", x, " ", y, "h", end - x, "v1h-", end - x, "z");
      x = end;
    }
  }
  return path;
}

std::vector<std::string> QrCode::terminal_lines() const {
  constexpr std::uint32_t kFirst = kQrFrame - kQrTerminalFrame;
  std::vector<std::string> lines;
  for (std::uint32_t y = kFirst; y < size_ - kFirst; y += 2) {
    std::string line = kBlackOnWhite;
    for (std::uint32_t x = kFirst; x < size_ - kFirst; ++x) {
      const bool upper = is_dark(x, y);
      const bool lower = is_dark(x, y + 1);  // the last row's is the frame's next one
      line += upper && lower ? kFull : upper ? kUpper : lower ? kLower : " ";
    }
    lines.push_back(line + kPlain);
  }
  return lines;
}

}  // namespace hearth::coordinator

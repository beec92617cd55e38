#include "coordinator/membership/qr_code.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <sstream>

#include "base/limits.h"

namespace hearth::coordinator {
namespace {

constexpr const char* kCommand =
    "hearth join hh1.fingerprint.0123456789abcdef.secret@10.0.0.1:11501";

// The modules of a side without the frame, and one of them by the standard's coordinates.
std::uint32_t width(const QrCode& code) { return code.size() - 2 * kQrFrame; }
bool at(const QrCode& code, std::uint32_t row, std::uint32_t column) {
  return code.is_dark(column + kQrFrame, row + kQrFrame);
}

// The marks that a camera looks for, and the format, which a mirrored or turned code has elsewhere.
TEST(QrCode, HasTheMarksOfTheStandard) {
  const auto code = QrCode::of(kCommand);
  ASSERT_TRUE(code.ok());
  const std::uint32_t side = width(*code);
  EXPECT_EQ((side - 17) % 4, 0u);
  const std::array<std::pair<std::uint32_t, std::uint32_t>, 3> corners = {
      {{0, 0}, {0, side - 7}, {side - 7, 0}}};
  for (const auto& [row, column] : corners) {
    for (std::uint32_t i = 0; i < 7; ++i) {
      EXPECT_TRUE(at(*code, row + i, column) && at(*code, row, column + i));
      EXPECT_EQ(at(*code, row + 1, column + i), i == 0 || i == 6);
    }
  }
  EXPECT_TRUE(at(*code, side - 8, 8)) << "the module that is always dark";
  std::uint32_t format = 0;
  std::uint32_t again = 0;
  for (std::uint32_t i = 0; i < 8; ++i) again = again << 1 | at(*code, 8, side - 8 + i);
  for (std::uint32_t i = 0; i < 7; ++i) format = format << 1 | at(*code, side - 1 - i, 8);
  format = (format << 8 | again) ^ 0x5412U;  // 15 bits, as ISO/IEC 18004 masks them
  EXPECT_EQ(format >> 13, 1u) << "error correction L";
}

TEST(QrCode, TheFrameIsLight) {
  const auto code = QrCode::of(kCommand);
  ASSERT_TRUE(code.ok());
  for (std::uint32_t i = 0; i < code->size(); ++i) {
    for (std::uint32_t k = 0; k < kQrFrame; ++k) {
      EXPECT_FALSE(code->is_dark(i, k) || code->is_dark(k, i));
      EXPECT_FALSE(code->is_dark(i, code->size() - 1 - k) ||
                   code->is_dark(code->size() - 1 - k, i));
    }
  }
}

TEST(QrCode, BothDrawingsHaveEveryModule) {
  const auto code = QrCode::of(kCommand);
  ASSERT_TRUE(code.ok());
  const std::uint32_t size = code->size();
  std::vector<bool> painted(std::size_t{size} * size, false);
  std::istringstream path(code->svg_path());
  std::string piece;
  while (std::getline(path, piece, 'z')) {
    unsigned x = 0;
    unsigned y = 0;
    unsigned right = 0;
    unsigned left = 0;
    ASSERT_EQ(std::sscanf(piece.c_str(), "M%u %uh%uv1h-%u", &x, &y, &right, &left), 4) << piece;
    ASSERT_EQ(right, left);
    for (unsigned i = 0; i < right; ++i) painted[y * size + x + i] = true;
  }
  for (std::uint32_t i = 0; i < size * size; ++i) {
    EXPECT_EQ(painted[i], code->is_dark(i % size, i / size)) << i;
  }
  constexpr std::uint32_t kCut = kQrFrame - kQrTerminalFrame;
  const std::uint32_t columns = code->terminal_columns();
  EXPECT_EQ(columns, size - 2 * kCut);
  const std::vector<std::string> lines = code->terminal_lines();
  ASSERT_EQ(lines.size(), (columns + 1) / 2);
  for (std::uint32_t y = 0; y < columns; ++y) {
    std::string_view line = lines[y / 2];
    line = line.substr(line.find('m') + 1);
    for (std::uint32_t x = 0; x < columns; ++x) {
      const std::string_view cell = line.substr(0, line.front() == ' ' ? 1 : 3);
      const bool dark = cell == "█" || cell == (y % 2 == 0 ? "▀" : "▄");
      EXPECT_EQ(dark, code->is_dark(x + kCut, y + kCut)) << x << " " << y;
      line.remove_prefix(cell.size());
    }
    EXPECT_TRUE(line.starts_with("\033[0m"));
  }
}

TEST(QrCode, BoundsItsText) {
  EXPECT_EQ(QrCode::of("").error().code, ErrorCode::kInvalidInput);
  EXPECT_TRUE(QrCode::of(std::string(limits::kQrTextBytes, 'a')).ok());
  EXPECT_EQ(QrCode::of(std::string(limits::kQrTextBytes + 1, 'a')).error().code,
            ErrorCode::kInvalidInput);
  EXPECT_NE(QrCode::of("a")->svg_path(), QrCode::of("b")->svg_path());
}

}  // namespace
}  // namespace hearth::coordinator

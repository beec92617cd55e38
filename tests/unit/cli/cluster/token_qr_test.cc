#include <gtest/gtest.h>

#include "cli/cluster/cluster.h"
#include "coordinator/membership/qr_code.h"

namespace hearth::cli {
namespace {

TEST(JoinCode, IsShownWholeOrNotAtAll) {
  const auto code = coordinator::QrCode::of("hearth join TOKEN");
  ASSERT_TRUE(code.ok());
  const std::size_t columns = code->terminal_columns();
  const std::size_t lines = (columns + 1) / 2;
  EXPECT_EQ(join_code_lines("TOKEN", columns, lines + 1), code->terminal_lines());
  EXPECT_TRUE(join_code_lines("TOKEN", columns - 1, lines + 1).empty());
  EXPECT_TRUE(join_code_lines("TOKEN", columns, lines).empty());
  // A real token's, in the smallest window that is common.
  const std::string token = "hh1.aaaa-bbbb-cccc-dddd-eeee-ffff." + std::string(16, '0') + "." +
                            std::string(43, 'x') + "@192.168.178.20:11501";
  EXPECT_FALSE(join_code_lines(token, 80, 24).empty());
  EXPECT_TRUE(join_code_lines(std::string(2'000, 'x'), 4'000, 4'000).empty());
}

}  // namespace
}  // namespace hearth::cli

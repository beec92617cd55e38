#include "cli/terminal/progress.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace hearth::cli {
namespace {

TEST(Progress, BytesAreWrittenInThePrefixThatFits) {
  const struct {
    std::uint64_t bytes;
    const char* text;
  } rows[] = {
      {0, "0 B"},
      {1, "1 B"},
      {999, "999 B"},
      {1000, "1.0 kB"},
      {1049, "1.0 kB"},
      {1051, "1.1 kB"},
      {99'900, "99.9 kB"},
      {100'000, "100 kB"},
      {999'400, "999 kB"},
      {1'000'000, "1.0 MB"},
      {4'920'000'000, "4.9 GB"},
      {70'000'000'000, "70.0 GB"},
      {1'500'000'000'000, "1.5 TB"},
      {18'446'744'073'709'551'615U, "18446744 TB"},
      // What rounds up to a thousand, or to a hundred, is written as that.
      {999'999, "1.0 MB"},
      {999'500'000, "1.0 GB"},
      {99'960, "100 kB"},
  };
  for (const auto& row : rows) EXPECT_EQ(format_bytes(row.bytes), row.text) << row.bytes;
}

TEST(Progress, APlainLineNamesMessageShareAndBytes) {
  const auto last_line = [](std::uint64_t total, std::uint64_t already, std::uint64_t done,
                            bool quiet) {
    ::testing::internal::CaptureStderr();
    ProgressBar bar("pulling m", total, already, quiet);
    bar.set(done);
    bar.finish();
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(last_line(2000, 0, 1000, false).find("pulling m   50% 1.0 kB/2.0 kB"),
            std::string::npos);
  EXPECT_NE(last_line(2000, 1500, 1000, false).find(" 75% 1.5 kB/2.0 kB"), std::string::npos)
      << "what is done is never taken back";
  EXPECT_NE(last_line(2000, 0, 3000, false).find("100% 3.0 kB/2.0 kB"), std::string::npos);
  EXPECT_NE(last_line(0, 0, 3000, false).find("  0% 3.0 kB/0 B"), std::string::npos);
  EXPECT_EQ(last_line(2000, 0, 2000, true), "");
}

}  // namespace
}  // namespace hearth::cli

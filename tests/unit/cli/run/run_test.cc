#include "cli/run/run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/run/answer.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

TEST(WriteReceipt, OnlyItsOwnerMayReadIt) {
  const fs::path folder = fs::temp_directory_path() / ("hearth-run-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string path = (folder / "answer.json").string();
  const mode_t before = umask(0);
  for (const std::string text : {"one", "two"}) {
    ASSERT_TRUE(write_receipt(path, text).ok());
    struct stat state {};
    ASSERT_EQ(stat(path.c_str(), &state), 0);
    EXPECT_EQ(state.st_mode & 0777U, 0600U);
    std::string read;
    std::ifstream(path) >> read;
    EXPECT_EQ(read, text);
  }
  umask(before);
  fs::remove_all(folder);
}

TEST(WriteReceipt, ADeviceIsNotReplaced) {
  const auto written = write_receipt("/dev/null", "x");
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().message.find("--receipt /dev/null"), std::string::npos);
  EXPECT_FALSE(write_receipt("/nowhere/x", "x").ok());
}

TEST(WriteReceipt, AnAnswerWithoutAReceiptSaysWhy) {
  const auto written = write_receipt("x", "");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists("x"));
}

TEST(PrintVerified, TheServersWordsAreEscaped) {
  client::Verified verified;
  verified.sentence = "not verified: a\x1b[2J";
  testing::internal::CaptureStderr();
  EXPECT_FALSE(print_verified(verified));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "hearth: not verified: a\\x1b[2J\n");
}

}  // namespace
}  // namespace hearth::cli

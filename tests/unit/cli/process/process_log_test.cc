#include "cli/process/process_log.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "cli/process/log_limiter.h"
#include "tests/unit/cli/process/logs_folder.h"

namespace hearth::cli {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

struct ProcessLogTest : ::testing::Test {
  LogsFolder folder;
  std::shared_ptr<spdlog::logger> before = spdlog::default_logger();

  void TearDown() override { spdlog::set_default_logger(before); }
};

TEST_F(ProcessLogTest, TheFileHasTheDateAndTheChildrensLines) {
  const std::string path = folder.path() + "/data/new/serve.log";
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(start_process_log("info").ok());
  ASSERT_TRUE(log_to_file(path).ok());
  spdlog::info("a\x1b[2J");
  spdlog::debug("too fine");
  log_child_line("local-1", "b\x07");
  const std::string err = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(err.find(" info a\\x1b[2J\n[local-1] b\\x07\n"), std::string::npos) << err;
  const std::vector<std::string> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].starts_with("20"));
  EXPECT_TRUE(lines[0].ends_with(" info a\\x1b[2J"));
  EXPECT_EQ(lines[1], "[local-1] b\\x07");
  struct stat state {};
  for (const char* made : {"/data", "/data/new"}) {
    ASSERT_EQ(stat((folder.path() + made).c_str(), &state), 0);
    EXPECT_EQ(state.st_mode & 0777U, 0700U) << made << " is for this user alone";
  }
}

// The files are bounded, and together they hold the newest lines without a gap.
TEST_F(ProcessLogTest, FullFilesMakeRoom) {
  constexpr std::size_t kBytes = 4'000;
  const std::string path = folder.file("serve.log");
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(start_process_log("info").ok());
  ASSERT_TRUE(log_to_file(path, kBytes).ok());
  for (int i = 0; i < 2'000; ++i) {
    log_child_line("n", std::to_string(i));
  }
  ::testing::internal::GetCapturedStderr();
  int last = 2'000;
  for (std::uint32_t age = 0; age <= kLogFilesBefore; ++age) {
    const std::string name = age == 0 ? "serve.log" : "serve." + std::to_string(age) + ".log";
    const std::vector<std::string> lines = lines_of(folder.file(name));
    ASSERT_FALSE(lines.empty());
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
      EXPECT_EQ(*line, "[n] " + std::to_string(--last));
    }
  }
  std::uintmax_t all = 0;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/logs")) {
    all += entry.file_size();
    ++files;
  }
  EXPECT_EQ(files, kLogFilesBefore + 1);
  EXPECT_LE(all, kBytes * (kLogFilesBefore + 1));
}

TEST_F(ProcessLogTest, WithoutAFileTheLogGoesOn) {
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(start_process_log("info").ok());
  std::filesystem::create_directories(folder.file("serve.log"));
  EXPECT_EQ(log_to_file(folder.file("serve.log")).error().code, ErrorCode::kIo);
  log_to_file_or_warn(folder.file("serve.log"));
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("warning"), std::string::npos);
}

TEST_F(ProcessLogTest, AFloodOfWarningsIsCut) {
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(start_process_log("info").ok());
  for (int i = 0; i < 5'000; ++i) spdlog::warn("refused a data link: {}", i);
  for (int i = 0; i < 500; ++i) spdlog::info("not limited");
  spdlog::error("another kind");
  const std::string err = ::testing::internal::GetCapturedStderr();
  const auto lines = static_cast<std::size_t>(std::count(err.begin(), err.end(), '\n'));
  EXPECT_GE(lines, 501U + LogLimiter::kBurst);
  EXPECT_LT(lines, 600U + 2 * LogLimiter::kBurst);
  EXPECT_NE(err.find("error another kind"), std::string::npos);
}

TEST_F(ProcessLogTest, LevelsAreNamed) {
  EXPECT_TRUE(start_process_log("off").ok());
  EXPECT_FALSE(start_process_log("loud").ok());
}

}  // namespace
}  // namespace hearth::cli

#include "cli/watch/logs.h"

#include <gtest/gtest.h>

#include "cli/terminal/exit_codes.h"
#include "tests/unit/cli/process/logs_folder.h"

namespace hearth::cli {
namespace {

struct LogsTest : ::testing::Test {
  LogsFolder folder;
  int code = 0;
  std::string error;

  std::string logs(LogsOptions options) {
    options.data_dir = folder.path();
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    code = run_logs(options);
    error = ::testing::internal::GetCapturedStderr();
    return ::testing::internal::GetCapturedStdout();
  }
};

TEST_F(LogsTest, AllOfTheServer) {
  folder.append("serve.1.log", "2026 old\n");
  folder.append("serve.log", "2026 new\n[local-1] a\x1b[2J\n");
  EXPECT_EQ(logs({}), "2026 old\n2026 new\n[local-1] a\\x1b[2J\n");
  EXPECT_EQ(code, kExitDone);
  LogsOptions last;
  last.lines = 2;
  EXPECT_EQ(logs(last), "2026 new\n[local-1] a\\x1b[2J\n");
}

TEST_F(LogsTest, OfOneNode) {
  folder.append("serve.log", "2026 one\n[local-1] a\n[local-2] b\n[local-1] c\n");
  folder.append("worker-den.log", "2026 den\n");
  LogsOptions options;
  options.node = "local-1";
  EXPECT_EQ(logs(options), "a\nc\n");
  options.lines = 1;
  EXPECT_EQ(logs(options), "c\n");
  options.node = "coordinator";
  EXPECT_EQ(logs(options), "2026 one\n");
  options.node = "den";
  EXPECT_EQ(logs(options), "2026 den\n");
}

TEST_F(LogsTest, AsJson) {
  folder.append("serve.log", "2026 \"one\"\n[local-1] \xff\n");
  LogsOptions options;
  options.json = true;
  EXPECT_EQ(logs(options),
            "{\"node\":\"coordinator\",\"line\":\"2026 \\\"one\\\"\"}\n"
            "{\"node\":\"local-1\",\"line\":\"\xEF\xBF\xBD\"}\n");
  folder.append("worker-den.log", "x\n");
  options.node = "den";
  EXPECT_EQ(logs(options), "{\"node\":\"den\",\"line\":\"x\"}\n");
}

TEST_F(LogsTest, NothingThereSaysSo) {
  EXPECT_EQ(logs({}), "");
  EXPECT_EQ(code, kExitFailed);
  EXPECT_NE(error.find("nothing is logged in " + folder.path()), std::string::npos);
  folder.append("serve.log", "2026 x\n[local-1] y\n");
  LogsOptions options;
  options.node = "local-9";
  EXPECT_EQ(logs(options), "");
  EXPECT_EQ(code, kExitFailed);
  EXPECT_NE(error.find("nothing of local-9 is logged"), std::string::npos);
  EXPECT_NE(error.find("coordinator, local-1"), std::string::npos);
}

TEST_F(LogsTest, WithoutAServerTheOneWorker) {
  folder.append("worker.log", "x\n");
  EXPECT_EQ(logs({}), "x\n");
  folder.append("worker-den.log", "y\n");
  EXPECT_EQ(logs({}), "");
  EXPECT_NE(error.find("name one: den, worker"), std::string::npos) << error;
  LogsOptions options;
  options.node = "worker";
  EXPECT_EQ(logs(options), "x\n");
  folder.append("worker-worker.log", "z\n");
  EXPECT_EQ(logs(options), "z\n") << "whose name it is comes first";
}

}  // namespace
}  // namespace hearth::cli

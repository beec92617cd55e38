#include <gtest/gtest.h>

#include "cli/watch/watch.h"
#include "tests/unit/cli/process/logs_folder.h"

namespace hearth::cli {
namespace {

using Words = std::vector<std::string>;

struct LogsTest : ::testing::Test {
  LogsFolder folder;

  Result<Words> command(const std::string& node, bool follow = false) const {
    return logs_command({node, folder.path(), 100, follow});
  }
  std::string error(const std::string& node) const { return command(node).error().message; }
};

TEST_F(LogsTest, ShowsTheServersFileByDefault) {
  folder.append("serve.log", "x\n");
  folder.append("worker-den.log", "y\n");
  EXPECT_EQ(*command(""), (Words{"tail", "-n", "100", "--", folder.file("serve.log")}));
  EXPECT_EQ(*command("", true), (Words{"tail", "-n", "100", "-F", "--", folder.file("serve.log")}));
  EXPECT_EQ(command("den")->back(), folder.file("worker-den.log"));
  EXPECT_EQ(command("coordinator")->back(), folder.file("serve.log"));
}

TEST_F(LogsTest, ANodeWithoutAFileIsAnErrorThatNamesTheOthers) {
  EXPECT_NE(error("").find("there is no log in " + folder.path()), std::string::npos);
  folder.append("serve.log", "[local-1] x\n");
  EXPECT_NE(error("local-1").find("in the server's log"), std::string::npos);
  folder.append("worker-den.log", "x\n");
  EXPECT_NE(error("local-1").find("workers with files: den"), std::string::npos);
  EXPECT_NE(error("attic").find("another machine logs there"), std::string::npos);
  EXPECT_FALSE(command("../logs/worker-den").ok());
}

TEST_F(LogsTest, WithoutAServerTheOnlyWorkerIsShown) {
  folder.append("worker.log", "x\n");
  EXPECT_EQ(command("")->back(), folder.file("worker.log"));
  folder.append("worker-den.log", "y\n");
  EXPECT_NE(error("").find("name one: worker, den"), std::string::npos) << error("");
  EXPECT_EQ(command("worker")->back(), folder.file("worker.log"));
  folder.append("worker-worker.log", "z\n");
  EXPECT_EQ(command("worker")->back(), folder.file("worker-worker.log"));
}

}  // namespace
}  // namespace hearth::cli

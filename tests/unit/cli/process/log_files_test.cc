#include "cli/process/log_files.h"

#include <gtest/gtest.h>

#include "tests/unit/cli/process/logs_folder.h"

namespace hearth::cli {
namespace {

using Names = std::vector<std::string>;

TEST(LogFiles, NamesOfFullFiles) {
  EXPECT_EQ(log_file_name("/a.b/serve.log", 0), "/a.b/serve.log");
  EXPECT_EQ(log_file_name("/a.b/serve.log", 2), "/a.b/serve.2.log");
  EXPECT_EQ(log_file_name("/a.b/serve", 1), "/a.b/serve.1");
}

TEST(LogFiles, NamesOfProcesses) {
  EXPECT_EQ(server_log_file("/d"), "/d/logs/serve.log");
  EXPECT_EQ(worker_log_file("/d", "den"), "/d/logs/worker-den.log");
  EXPECT_EQ(worker_log_file("/d", ""), "/d/logs/worker.log");
  EXPECT_EQ(worker_log_file("/d", "../../x"), "/d/logs/worker.log") << "never out of the folder";
}

TEST(LogFiles, LinesOfChildrenBearTheirNames) {
  const auto split = [](std::string_view line) {
    const LogLine parts = split_log_line(line);
    return std::string(parts.node) + "|" + std::string(parts.text);
  };
  EXPECT_EQ(split("2026-01-02 03:04:05.678 info ready"),
            "coordinator|2026-01-02 03:04:05.678 info ready");
  EXPECT_EQ(split("[local-1] 03:04:05.678 warning [x] y"), "local-1|03:04:05.678 warning [x] y");
  EXPECT_EQ(split("[no end"), "coordinator|[no end");
  EXPECT_EQ(split(""), "coordinator|");
}

TEST(LogFiles, NodesThatHaveLogged) {
  const LogsFolder folder;
  EXPECT_EQ(logged_nodes(folder.path()), Names{});
  folder.append("serve.1.log", "[old] x\n");
  folder.append("serve.log", "2026 info\n[local-1] x\n[local-1] y\n");
  folder.append("worker-den.log", "x\n");
  folder.append("worker-den.1.log", "x\n");
  folder.append("worker.log", "x\n");
  folder.append("other.txt", "x\n");
  EXPECT_EQ(logged_nodes(folder.path()), (Names{"coordinator", "den", "local-1", "old", "worker"}));
  EXPECT_EQ(workers_with_files(folder.path()), (Names{"", "den"}));
}

}  // namespace
}  // namespace hearth::cli

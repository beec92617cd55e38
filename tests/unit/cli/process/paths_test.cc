#include "cli/process/paths.h"

#include <gtest/gtest.h>

#include "tests/unit/cli/process/logs_folder.h"

namespace hearth::cli {
namespace {

using Names = std::vector<std::string>;

TEST(LogFiles, NamesOfProcesses) {
  EXPECT_EQ(server_log_file("/d"), "/d/logs/serve.log");
  EXPECT_EQ(worker_log_file("/d", "den"), "/d/logs/worker-den.log");
  EXPECT_EQ(worker_log_file("/d", ""), "/d/logs/worker.log");
  EXPECT_EQ(worker_log_file("/d", "../../x"), "/d/logs/worker.log") << "never out of the folder";
}

TEST(LogFiles, WorkersThatHaveFiles) {
  const LogsFolder folder;
  EXPECT_EQ(workers_with_files(folder.path()), Names{});
  folder.append("serve.1.log", "x\n");
  folder.append("serve.log", "x\n");
  folder.append("worker-den.log", "x\n");
  folder.append("worker-den.1.log", "x\n");
  folder.append("worker.log", "x\n");
  folder.append("other.txt", "x\n");
  EXPECT_EQ(workers_with_files(folder.path()), (Names{"", "den"}));
}

}  // namespace
}  // namespace hearth::cli

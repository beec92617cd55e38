#include "cli/terminal/exit_codes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

namespace hearth::cli {
namespace {

// The exit code of something that printed a result on stdout and came to `code`.
int finished(const char* file, int code) {
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO);
  const int opened = open(file, O_WRONLY);
  dup2(opened, STDOUT_FILENO);
  succeed("a result");
  ::testing::internal::CaptureStderr();
  const int exit = finish_output(code);
  const std::string said = ::testing::internal::GetCapturedStderr();
  dup2(before, STDOUT_FILENO);
  std::clearerr(stdout);
  for (const int fd : {before, opened}) close(fd);
  EXPECT_EQ(said.empty(), exit == code) << said;
  return exit;
}

TEST(FinishOutput, ALostResultIsAFailure) {
  EXPECT_EQ(finished("/dev/null", kExitDone), kExitDone);
  EXPECT_EQ(finished("/dev/full", kExitDone), kExitFailed);
  EXPECT_EQ(finished("/dev/full", kExitRefused), kExitRefused) << "which was said before";
}

}  // namespace
}  // namespace hearth::cli

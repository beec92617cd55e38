#include "cli/process/background.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

namespace hearth::cli {
namespace {

struct Started {
  int code = -1;     // of the process that was started
  std::string said;  // on stderr
};

// What a shell sees of a process that goes to the background and then does `work` there.
Started start(const std::function<void()>& work) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    if (!go_to_background()) ::_exit(99);
    work();
    ::_exit(0);
  }
  ::close(ends[1]);
  Started started;
  char byte = 0;
  while (::read(ends[0], &byte, 1) == 1) started.said += byte;
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  started.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return started;
}

TEST(BackgroundTest, ItsParentEndsOnceItIsReadyAndItGoesOnWithoutATerminal) {
  std::array<int, 2> alive{};
  ASSERT_EQ(::pipe(alive.data()), 0);
  const Started started = start([&] {
    ::close(alive[0]);
    const bool apart = ::getsid(0) == ::getpid();
    report_ready("it runs");
    report_ready("once");
    const bool silent = ::write(STDERR_FILENO, "x", 1) == 1;
    const char seen = apart && silent ? 'y' : 'n';
    if (::write(alive[1], &seen, 1) != 1) ::_exit(1);
  });
  ::close(alive[1]);
  EXPECT_EQ(started.code, 0);
  EXPECT_EQ(started.said, "it runs\n");
  char seen = 0;
  EXPECT_EQ(::read(alive[0], &seen, 1), 1);
  EXPECT_EQ(seen, 'y');
  ::close(alive[0]);
}

TEST(BackgroundTest, WhatEndsBeforeItIsReadyHasItsCodeAndItsWords) {
  const Started started = start([] {
    EXPECT_EQ(::write(STDERR_FILENO, "no\n", 3), 3);
    ::_exit(7);
  });
  EXPECT_EQ(started.code, 7);
  EXPECT_EQ(started.said, "no\n");
}

TEST(BackgroundTest, AProcessInTheForegroundReportsNothing) { report_ready("nothing"); }

}  // namespace
}  // namespace hearth::cli

// Signals to a process that serves: each in a process of its own, whose exit code tells what it
// did.
#include "cli/process/loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace hearth::cli {
namespace {

constexpr int kServed = 7;   // it went on
constexpr int kStopped = 9;  // on_stop was called

// A shell starts what runs in the background with signals that are ignored.
void hear_all() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_DFL);
}

// A loop that receives a signal at its first tick and ends at its third.
[[noreturn]] void run_with(int signal) {
  Loop loop;
  int ticks = 0;
  loop.run(
      [&] {
        if (++ticks == 1) raise(signal);
        if (ticks == 3) _exit(kServed);
      },
      [] { _exit(kStopped); });
  _exit(1);
}

TEST(LoopDeathTest, ASignalBeforeItRunsEndsTheProcessAtOnce) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto start = [signal] {
      hear_all();
      const Loop loop;
      raise(signal);
      _exit(1);
    };
    EXPECT_EXIT(start(), ::testing::ExitedWithCode(0), "") << signal;
  }
}

TEST(LoopDeathTest, AStopIsHeard) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto hear = [signal] {
      hear_all();
      run_with(signal);
    };
    EXPECT_EXIT(hear(), ::testing::ExitedWithCode(kStopped), "") << signal;
  }
}

TEST(LoopDeathTest, WhatHangsEndsAtTheDeadline) {
  const auto hang = [] {
    Loop loop;
    loop.run([] { raise(SIGTERM); },
             [] {
               while (true) pause();
             });
    _exit(1);
  };
  EXPECT_EXIT(hang(), ::testing::ExitedWithCode(0), "");
}

TEST(LoopDeathTest, OtherSignalsEndNothing) {
  for (const int signal : {SIGUSR1, SIGXFSZ, SIGPIPE}) {
    EXPECT_EXIT(run_with(signal), ::testing::ExitedWithCode(kServed), "") << signal;
  }
}

TEST(LoopDeathTest, AProcessUnderNohupOutlivesItsTerminal) {
  const auto nohup = [] {
    std::signal(SIGHUP, SIG_IGN);
    run_with(SIGHUP);
  };
  EXPECT_EXIT(nohup(), ::testing::ExitedWithCode(kServed), "");
}

}  // namespace
}  // namespace hearth::cli

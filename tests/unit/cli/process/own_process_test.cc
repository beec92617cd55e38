#include "cli/process/own_process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "cli/terminal/exit_codes.h"

namespace hearth::cli {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // which has an address space and an allocator of its own
#else
constexpr bool kSanitized = false;
#endif

// On a thread: a test would catch what is thrown on its own.
template <typename Work>
void lack_on_a_thread(Work work) {
  explain_lack();
  std::thread(work).join();
}

TEST(OwnProcessDeathTest, MemoryThatCannotBeHadIsASentence) {
  EXPECT_EXIT(lack_on_a_thread([] { throw std::bad_alloc(); }),
              ::testing::ExitedWithCode(kExitNoCapacity), "hearth: .*no memory is left; .*ulimit");
}

TEST(OwnProcessDeathTest, ThreadsThatCannotBeHadAreASentence) {
  if (kSanitized) GTEST_SKIP();
  const auto exhaust = [] {
    const rlimit little{256 * limits::kMiB, 256 * limits::kMiB};  // of stacks, each of megabytes
    ::setrlimit(RLIMIT_AS, &little);
    std::vector<std::thread> threads;
    while (true) threads.emplace_back([] { pause(); });
  };
  EXPECT_EXIT(lack_on_a_thread(exhaust), ::testing::ExitedWithCode(kExitNoCapacity),
              "hearth: the system gives this process no more");
}

TEST(OwnProcessDeathTest, AServiceDumpsNoCoreAndOpensWhatItMay) {
  const auto start = [] {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 100);
    ::setrlimit(RLIMIT_NOFILE, &files);
    if (!prepare_service().ok()) _exit(1);
    rlimit cores{1, 1};
    ::getrlimit(RLIMIT_CORE, &cores);
    if (cores.rlim_cur != 0 || cores.rlim_max != 0) _exit(2);
    if (::prctl(PR_GET_DUMPABLE) != 0) _exit(3);
    ::getrlimit(RLIMIT_NOFILE, &files);
    _exit(files.rlim_cur == std::min<rlim_t>(files.rlim_max, limits::kDescriptors) ? 0 : 4);
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(0), "");
}

TEST(OwnProcessDeathTest, TooFewFilesAreASentence) {
  const auto start = [] {
    const rlimit few{32, 32};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const Status given = prepare_service();
    _exit(given.ok() ? 0 : fail(given.error()));
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(kExitNoCapacity),
              "may open 32 files .* needs 64 or more: ulimit -n");
}

std::size_t resident_bytes() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0, resident = 0;
  EXPECT_EQ(std::fscanf(file, "%lu %lu", &pages, &resident), 2);
  std::fclose(file);
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(OwnProcess, WhatAFloodTookGoesBackToTheSystem) {
  if (kSanitized) GTEST_SKIP();
  constexpr std::size_t kBlock = 64 * limits::kKiB;
  constexpr std::size_t kBlocks = 256 * limits::kMiB / kBlock;
  std::vector<std::unique_ptr<char[]>> blocks;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::make_unique<char[]>(kBlock));
    std::memset(blocks.back().get(), 1, kBlock);
  }
  for (std::size_t i = 0; i < kBlocks; ++i) {  // some are in use, between those that are free
    if (i % 64 != 63) blocks[i].reset();
  }
  const std::size_t before = resident_bytes();
  return_free_memory();
  EXPECT_LT(resident_bytes(), before - 128 * limits::kMiB);
}

}  // namespace
}  // namespace hearth::cli

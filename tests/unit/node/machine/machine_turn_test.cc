#include "node/machine/machine_turn.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/node/machine/pause_folder.h"

namespace hearth::cli {
namespace {

constexpr Duration kLong = std::chrono::minutes(5);
bool never() { return false; }

struct MachineTurnTest : ::testing::Test {
  const PauseFolder folder;
  const std::filesystem::path file =
      std::filesystem::path(folder.path()) / "cache" / "measuring.lock";
};

TEST_F(MachineTurnTest, OnlyOneHasItAtATime) {
  std::atomic<int> inside{0}, most{0}, turns{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      const MachineTurn turn(file, kLong, never);
      if (turn.held()) ++turns;
      most = std::max(most.load(), ++inside);
      std::this_thread::yield();
      --inside;
    });
  }
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(turns, 4);
  struct stat found {};
  ASSERT_EQ(::stat(file.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
}

TEST_F(MachineTurnTest, WhoIsCancelledOrHasWaitedGoesWithoutIt) {
  const MachineTurn first(file, kLong, never);
  EXPECT_TRUE(first.held());
  int asked = 0;
  const MachineTurn cancelled(file, kLong, [&] { return ++asked > 2; });
  EXPECT_FALSE(cancelled.held());
  EXPECT_FALSE(MachineTurn(file, std::chrono::milliseconds(1), never).held());
}

TEST_F(MachineTurnTest, WithoutAFileItIsNotWaitedFor) {
  EXPECT_FALSE(MachineTurn("/proc/nothing/of/the/kind", kLong, never).held());
}

}  // namespace
}  // namespace hearth::cli

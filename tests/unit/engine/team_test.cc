#include "node/engine/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace hearth::node {
namespace {

TEST(Team, EveryMemberWorksOnceARunAndSeesTheOthersAfterABarrier) {
  for (const std::uint32_t threads : {0U, 1U, 2U, 4U}) {
    Team team(threads);
    ASSERT_EQ(team.size(), threads == 0 ? 1U : threads);
    std::vector<int> values(team.size(), 0);
    std::atomic<int> wrong{0};
    for (int run = 1; run <= 200; ++run) {
      team.run([&](std::uint32_t member) {
        for (int step = 0; step < 5; ++step) {
          values[member] = run * 10 + step;
          team.barrier();
          for (const int value : values) wrong += value != run * 10 + step ? 1 : 0;
          team.barrier();
        }
      });
    }
    EXPECT_EQ(wrong.load(), 0);
    for (const int value : values) EXPECT_EQ(value, 2004);
  }
}

}  // namespace
}  // namespace hearth::node

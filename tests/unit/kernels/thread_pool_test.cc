#include "kernels/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace hearth::kernels {
namespace {

class ThreadPools : public ::testing::TestWithParam<unsigned> {};

TEST_P(ThreadPools, EveryUnitRunsOnce) {
  auto pool = ThreadPool::create(GetParam());
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ((*pool)->threads(), GetParam());
  for (const std::uint32_t units : {0U, 1U, 2U, 7U, 64U, 1000U}) {
    for (const std::uint32_t grain : {0U, 1U, 3U, 64U, 5000U}) {
      std::vector<std::atomic<int>> runs(units);
      (*pool)->parallel_for(units, grain, [&](std::uint32_t begin, std::uint32_t end, unsigned t) {
        EXPECT_LT(begin, end);
        EXPECT_LE(end - begin, std::max(grain, 1U));
        EXPECT_LT(t, GetParam());
        for (std::uint32_t i = begin; i < end; ++i) runs[i].fetch_add(1);
      });
      for (std::uint32_t i = 0; i < units; ++i) ASSERT_EQ(runs[i].load(), 1) << i;
    }
  }
}

// Results of a finished loop are visible to the next without any further synchronisation.
TEST_P(ThreadPools, LoopsFollowEachOther) {
  auto pool = ThreadPool::create(GetParam());
  ASSERT_TRUE(pool.ok());
  std::vector<std::uint32_t> values(97, 0);
  for (std::uint32_t round = 0; round < 20'000; ++round) {
    (*pool)->parallel_for(97, 5, [&](std::uint32_t begin, std::uint32_t end, unsigned) {
      for (std::uint32_t i = begin; i < end; ++i) ++values[i];
    });
    ASSERT_EQ(values[round % 97], round + 1);
  }
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0U), 97U * 20'000U);
}

// A worker late at a short loop must not claim a range of the longer one after it.
TEST_P(ThreadPools, LoopsOfChangingLengthFollowEachOther) {
  auto pool = ThreadPool::create(GetParam());
  ASSERT_TRUE(pool.ok());
  std::vector<std::atomic<std::uint32_t>> runs(200);
  for (std::uint32_t round = 0; round < 20'000; ++round) {
    const std::uint32_t units = 3 + round * 37 % 197;
    for (std::uint32_t i = 0; i < units; ++i) runs[i].store(0);
    (*pool)->parallel_for(units, 1 + round % 3,
                          [&](std::uint32_t begin, std::uint32_t end, unsigned) {
                            ASSERT_LE(end, units);
                            for (std::uint32_t i = begin; i < end; ++i) runs[i].fetch_add(1);
                          });
    for (std::uint32_t i = 0; i < units; ++i) ASSERT_EQ(runs[i].load(), 1U) << i;
  }
}

TEST_P(ThreadPools, SleepersWakeUp) {
  auto pool = ThreadPool::create(GetParam());
  ASSERT_TRUE(pool.ok());
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<std::uint32_t> total{0};
    (*pool)->parallel_for(
        8, 1, [&](std::uint32_t begin, std::uint32_t, unsigned) { total.fetch_add(begin); });
    ASSERT_EQ(total.load(), 28U);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPools, ::testing::Values(1U, 2U, 3U, 8U));

// A wait that ends at last where the pool is wrong, so that the test fails and does not hang.
template <typename Condition>
void wait_for(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
}

// A thread that is stuck in one range, as on a core that something else took, keeps that range and
// no more: the others do all the rest meanwhile. Once it is the caller, once a worker.
TEST(ThreadPool, TheOthersTakeWhatASlowThreadLeaves) {
  constexpr std::uint32_t kUnits = 67;
  constexpr std::uint32_t kGrain = 2;
  for (const unsigned threads : {2U, 3U, 5U}) {
    for (const unsigned slow : {0U, threads - 1}) {
      const auto pool = ThreadPool::create(threads).value();
      std::atomic<bool> stuck{false};
      std::atomic<std::uint32_t> by_slow{0};
      std::atomic<std::uint32_t> by_others{0};
      std::atomic<std::uint32_t> left_to_slow{0};
      pool->parallel_for(kUnits, kGrain, [&](std::uint32_t begin, std::uint32_t end, unsigned t) {
        const std::uint32_t units = end - begin;
        if (t != slow) {
          wait_for([&] { return stuck.load(); });
          by_others.fetch_add(units);
          return;
        }
        if (!stuck.exchange(true)) {
          wait_for([&] { return by_others.load() + units == kUnits; });
          left_to_slow.store(kUnits - by_others.load());
        }
        by_slow.fetch_add(units);
      });
      EXPECT_TRUE(stuck.load());
      EXPECT_EQ(by_slow.load() + by_others.load(), kUnits);
      EXPECT_LE(left_to_slow.load(), kGrain) << threads << " threads, slow one " << slow;
      EXPECT_EQ(left_to_slow.load(), by_slow.load()) << threads << " threads, slow one " << slow;
    }
  }
}

TEST(ThreadPool, NoThreadsIsRefused) { EXPECT_FALSE(ThreadPool::create(0).ok()); }

}  // namespace
}  // namespace hearth::kernels

#include "kernels/thread_pins.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "kernels/thread_pool.h"

namespace hearth::kernels {
namespace {

cpu_set_t allowed() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

// Where each thread of the pool may run; every one takes part.
std::vector<cpu_set_t> masks(ThreadPool& pool) {
  std::vector<cpu_set_t> found(pool.threads());
  std::atomic<unsigned> arrived{0};
  pool.parallel_for(pool.threads(), 1, [&](std::uint32_t, std::uint32_t, unsigned thread) {
    found[thread] = allowed();
    arrived.fetch_add(1);
    while (arrived.load() < pool.threads()) std::this_thread::yield();
  });
  return found;
}

bool pinned(const std::vector<cpu_set_t>& threads) {
  cpu_set_t together;
  CPU_ZERO(&together);
  for (const cpu_set_t& one : threads) {
    if (CPU_COUNT(&one) != 1) return false;
    CPU_OR(&together, &together, &one);
  }
  return static_cast<std::size_t>(CPU_COUNT(&together)) == threads.size();
}

bool run_on(const std::vector<cpu_set_t>& threads, const cpu_set_t& cpus) {
  for (const cpu_set_t& one : threads) {
    if (CPU_EQUAL(&one, &cpus) == 0) return false;
  }
  return true;
}

// On a thread that may run on two cpus, so that a test leaves nothing pinned behind.
template <typename Test>
void on_two_cpus(Test test) {
  if (cpu_set_t all = allowed(); CPU_COUNT(&all) < 2) GTEST_SKIP() << "needs two cpus";
  std::thread([&] {
    cpu_set_t two = allowed();
    for (int cpu = CPU_SETSIZE - 1; CPU_COUNT(&two) > 2; --cpu) CPU_CLR(cpu, &two);
    ASSERT_EQ(sched_setaffinity(0, sizeof two, &two), 0);
    test(two);
  }).join();
}

TEST(ThreadPins, OneCpuForEachThread) {
  on_two_cpus([](const cpu_set_t& two) {
    EXPECT_TRUE(check_pins(2).ok());
    {
      const auto pool = ThreadPool::create(2, true).value();
      EXPECT_TRUE(pinned(masks(*pool)));
    }
    EXPECT_TRUE(run_on({allowed()}, two)) << "the caller is let go";
  });
}

TEST(ThreadPins, NoneUnlessAsked) {
  on_two_cpus([](const cpu_set_t& two) {
    const auto pool = ThreadPool::create(2).value();
    EXPECT_TRUE(run_on(masks(*pool), two));
  });
}

TEST(ThreadPins, NoneWhereThreadsAreNotAsManyAsCpus) {
  on_two_cpus([](const cpu_set_t& two) {
    for (const unsigned threads : {1U, 3U}) {
      const Status checked = check_pins(threads);
      ASSERT_FALSE(checked.ok());
      EXPECT_NE(checked.error().message.find(std::to_string(threads) + " compute threads, 2 cpus"),
                std::string::npos);
      const auto pool = ThreadPool::create(threads, true).value();
      EXPECT_TRUE(run_on(masks(*pool), two)) << threads;
    }
  });
}

// Several engines of one process have pools of one caller, which the first has pinned.
TEST(ThreadPins, PoolsOfOneCallerDoNotSqueezeEachOther) {
  on_two_cpus([](const cpu_set_t& two) {
    std::optional first(ThreadPool::create(2, true).value());
    const auto second = ThreadPool::create(2, true).value();
    const auto third = ThreadPool::create(2).value();
    EXPECT_TRUE(pinned(masks(**first)));
    EXPECT_TRUE(pinned(masks(*second)));
    EXPECT_TRUE(run_on({masks(*third)[1]}, two));
    first.reset();
    EXPECT_TRUE(pinned(masks(*second))) << "the caller is held until the last has gone";
  });
}

}  // namespace
}  // namespace hearth::kernels

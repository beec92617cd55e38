#include "coordinator/http/api/slow_task_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth::coordinator::http {
namespace {

// The pool is a queue that the test empties one task at a time.
struct SlowTaskQueueTest : ::testing::Test {
  std::deque<SlowTaskQueue::Task> pool;
  bool closed = false;
  std::string log;
  SlowTaskQueue queue{[this](SlowTaskQueue::Task task) {
                        if (!closed) pool.push_back(std::move(task));
                        return !closed;
                      },
                      2};

  void post(char name) {
    queue.post([this, name] { log += name; });
  }
  void run_one() {
    const SlowTaskQueue::Task task = std::move(pool.front());
    pool.pop_front();
    task();
  }
};

TEST_F(SlowTaskQueueTest, HandsOnNoMoreThanItMayAndKeepsTheOrder) {
  for (const char name : {'a', 'b', 'c', 'd', 'e'}) post(name);
  EXPECT_EQ(pool.size(), 2U);
  for (const char* done : {"a", "ab", "abc"}) {
    run_one();
    EXPECT_EQ(log, done);
    EXPECT_EQ(pool.size(), 2U) << "the next one has the place";
  }
  run_one();
  run_one();
  EXPECT_EQ(log, "abcde");
  EXPECT_TRUE(pool.empty());
  for (const char name : {'f', 'g', 'h'}) post(name);
  EXPECT_EQ(pool.size(), 2U) << "every place came back";
}

TEST_F(SlowTaskQueueTest, ATaskMayPostAnother) {
  queue.post([this] { post('b'); });
  post('a');
  post('c');
  while (!pool.empty()) run_one();
  EXPECT_EQ(log, "acb");
}

TEST_F(SlowTaskQueueTest, AClosedPoolDropsWhatWaits) {
  const auto held = std::make_shared<int>(0);
  for (int i = 0; i < 3; ++i) queue.post([held] {});
  closed = true;
  while (!pool.empty()) run_one();
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace hearth::coordinator::http

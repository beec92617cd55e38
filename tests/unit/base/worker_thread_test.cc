#include "base/worker_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using WhenStopped = WorkerThread::WhenStopped;
using Urgency = WorkerThread::Urgency;

// Holds the thread until it is opened.
class Gate {
 public:
  WorkerThread::Task task() {
    return [this] {
      entered_.set_value();
      open_.get_future().wait();
    };
  }
  void wait() { entered_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  std::promise<void> entered_;
  std::promise<void> open_;
};

TEST(WorkerThreadTest, TasksRunInTheirOrder) {
  std::string order;
  WorkerThread worker({.max_cost = 100, .when_stopped = WhenStopped::kFinish});
  for (const char letter : {'a', 'b', 'c'}) {
    ASSERT_TRUE(worker.post([&order, letter] { order += letter; }));
  }
  worker.stop();
  EXPECT_EQ(order, "abc");
}

TEST(WorkerThreadTest, AScheduleStandsInForTheThread) {
  std::vector<std::pair<Duration, WorkerThread::Task>> scheduled;
  std::string order;
  const auto letter = [&order](char of) { return [&order, of] { order += of; }; };
  {
    WorkerThread worker({.max_cost = 10,
                         .when_stopped = WhenStopped::kFinish,
                         .gather = milliseconds(20),
                         .gathered_cost = 5,
                         .schedule = [&](Duration delay, WorkerThread::Task task) {
                           scheduled.emplace_back(delay, std::move(task));
                         }});
    ASSERT_TRUE(worker.post(letter('a'), 1, Urgency::kGathered));
    ASSERT_TRUE(worker.post(letter('b'), 1, Urgency::kNow));
    worker.post_after(hours(1), letter('c'));
    EXPECT_FALSE(worker.post(letter('x'), 9)) << "the queue is bounded";
    EXPECT_EQ(order, "") << "nothing runs before it is due";
    ASSERT_EQ(scheduled.size(), 3u);
    EXPECT_EQ(scheduled[0].first, milliseconds(20));
    EXPECT_EQ(scheduled[1].first, Duration(0));
    EXPECT_EQ(scheduled[2].first, hours(1));
    scheduled[1].second();
    EXPECT_EQ(order, "ab") << "in the order in which they came";
    scheduled[0].second();
    scheduled[2].second();
    EXPECT_EQ(order, "abc");
    ASSERT_TRUE(worker.post(letter('d'), 10)) << "each gave its cost back";
  }
  EXPECT_EQ(order, "abcd") << "what waits is finished";
  scheduled.back().second();
  EXPECT_EQ(order, "abcd");
}

TEST(WorkerThreadTest, AFullQueueRefusesANewTask) {
  Gate gate;
  std::string order;
  WorkerThread worker({.max_cost = 10, .when_stopped = WhenStopped::kFinish});
  ASSERT_TRUE(worker.post(gate.task(), 4));
  gate.wait();
  EXPECT_TRUE(worker.post([&] { order += "a"; }, 6));
  EXPECT_FALSE(worker.post([&] { order += "b"; }, 1)) << "the running task counts";
  EXPECT_FALSE(worker.post([&] { order += "c"; }, 11));
  gate.open();
  worker.stop();
  EXPECT_EQ(order, "a");
}

TEST(WorkerThreadTest, WaitingTasksAreDiscardedWhenItStops) {
  Gate gate;
  std::atomic<bool> ran{false};
  const auto held = std::make_shared<int>(1);
  WorkerThread worker({.max_cost = 10});
  ASSERT_TRUE(worker.post(gate.task()));
  gate.wait();
  ASSERT_TRUE(worker.post([&ran, held] { ran = true; }));
  EXPECT_EQ(held.use_count(), 2);
  std::thread stopper([&] { worker.stop(); });
  while (!worker.stopping()) std::this_thread::yield();
  EXPECT_FALSE(worker.post([&] { ran = true; }));
  gate.open();
  stopper.join();
  EXPECT_FALSE(ran);
  EXPECT_EQ(held.use_count(), 1) << "what a task holds is freed";
}

TEST(WorkerThreadTest, AGatheredTaskWaitsForAnUrgentOne) {
  std::promise<std::string> order;
  std::string run;
  WorkerThread worker({.max_cost = 100, .gather = hours(1), .gathered_cost = 50});
  ASSERT_TRUE(worker.post([&] { run += "a"; }, 1, Urgency::kGathered));
  ASSERT_TRUE(worker.post([&] { run += "b"; }, 1, Urgency::kGathered));
  ASSERT_TRUE(worker.post([&] { order.set_value(run); }));
  EXPECT_EQ(order.get_future().get(), "ab");
}

TEST(WorkerThreadTest, OrForSoMuchWork) {
  std::promise<void> ran;
  WorkerThread worker({.max_cost = 100, .gather = hours(1), .gathered_cost = 50});
  ASSERT_TRUE(worker.post([] {}, 30, Urgency::kGathered));
  ASSERT_TRUE(worker.post([&] { ran.set_value(); }, 30, Urgency::kGathered));
  ran.get_future().wait();
}

TEST(WorkerThreadTest, OrForItsTime) {
  std::promise<void> ran;
  WorkerThread worker({.max_cost = 100, .gather = milliseconds(1), .gathered_cost = 50});
  ASSERT_TRUE(worker.post([&] { ran.set_value(); }, 1, Urgency::kGathered));
  ran.get_future().wait();
}

TEST(WorkerThreadTest, ADelayedTaskRunsOnceItIsDue) {
  std::promise<void> ran;
  WorkerThread worker({.max_cost = 1});
  worker.post_after(hours(1), [] { FAIL() << "it is not due"; });
  const auto begin = std::chrono::steady_clock::now();
  worker.post_after(milliseconds(20), [&] { ran.set_value(); });
  ran.get_future().wait();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(20));
}

TEST(WorkerThreadTest, ATaskThatSleepsWakesWhenTheThreadStops) {
  std::promise<void> begun;
  std::promise<bool> slept;
  WorkerThread worker({.max_cost = 1});
  ASSERT_TRUE(worker.post([&] {
    begun.set_value();
    slept.set_value(worker.sleep_for(hours(1)));
  }));
  begun.get_future().wait();
  worker.stop();
  EXPECT_FALSE(slept.get_future().get());
}

TEST(WorkerThreadTest, ManyThreadsPostAndNothingIsLost) {
  std::size_t count = 0;
  {
    WorkerThread worker({.max_cost = 1'000, .when_stopped = WhenStopped::kFinish});
    std::vector<std::thread> posters;
    for (int i = 0; i < 4; ++i) {
      posters.emplace_back([&] {
        for (int task = 0; task < 2'000; ++task) {
          while (!worker.post([&] { ++count; })) std::this_thread::yield();
        }
      });
    }
    for (std::thread& poster : posters) poster.join();
  }
  EXPECT_EQ(count, 8'000U);
}

}  // namespace
}  // namespace hearth

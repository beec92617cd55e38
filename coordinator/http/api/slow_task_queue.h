// SlowTaskQueue: keeps slow tasks from filling the thread pool. At most a fixed number of them run
// at once and the others wait in their order, so that a short task that is posted directly finds a
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace hearth::coordinator::http {

class SlowTaskQueue {
 public:
  using Task = std::function<void()>;

  // `post`: hands a task to the pool and does not run it; false when the pool has ended and the
  // task was dropped.
  SlowTaskQueue(std::function<bool(Task)> post, std::uint32_t at_once)
      : post_(std::move(post)), free_(at_once) {}

  // From any thread. The queue outlives every task that it has handed to the pool.
  void post(Task task) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
    hand_on();
  }

 private:
  // Under the mutex.
  void hand_on() {
    while (free_ > 0 && !waiting_.empty()) {
      --free_;
      post_([this, task = std::move(waiting_.front())]() mutable {
        std::exchange(task, nullptr)();
        const std::lock_guard lock(mutex_);
        ++free_;
        hand_on();
      });
      waiting_.pop_front();
    }
  }

  const std::function<bool(Task)> post_;
  std::mutex mutex_;
  std::uint32_t free_;
  std::deque<Task> waiting_;
};

}  // namespace hearth::coordinator::http

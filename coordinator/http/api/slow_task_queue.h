// SlowTaskQueue: keeps slow tasks from filling the thread pool. At most so many of them run at once
// and the others wait in their order, so that a short task that is posted directly finds a thread.
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

  // `post`: hands a task to the pool; false when the pool has ended and the task was dropped.
  SlowTaskQueue(std::function<bool(Task)> post, std::uint32_t at_once)
      : post_(std::move(post)), free_(at_once) {}

  // From any thread. The queue outlives every task that it has handed to the pool.
  void post(Task task) {
    {
      const std::lock_guard lock(mutex_);
      if (free_ == 0) {
        waiting_.push_back(std::move(task));
        return;
      }
      --free_;
    }
    start(std::move(task));
  }

 private:
  void start(Task task) {
    post_([this, task = std::move(task)]() mutable {
      std::exchange(task, nullptr)();
      next();
    });
  }
  void next() {
    Task task;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) {
        ++free_;
        return;
      }
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    start(std::move(task));
  }

  const std::function<bool(Task)> post_;
  std::mutex mutex_;
  std::uint32_t free_;
  std::deque<Task> waiting_;
};

}  // namespace hearth::coordinator::http

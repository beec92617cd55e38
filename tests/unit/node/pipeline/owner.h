// The owner's thread of an adapter, for tests.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>

namespace hearth::testing {

// A thread that runs what is posted to it, in order.
class Owner {
 public:
  Owner() : thread_([this] { run(); }) {}
  ~Owner() {
    post([this] { ending_ = true; });
    thread_.join();
  }
  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push(std::move(work));
    wake_.notify_one();
  }
  // Runs on the owner's thread and waits for it.
  void call(const std::function<void()>& work) {
    std::mutex mutex;
    std::condition_variable done_cv;
    bool done = false;
    post([&] {
      work();
      const std::lock_guard lock(mutex);
      done = true;
      done_cv.notify_one();
    });
    std::unique_lock lock(mutex);
    done_cv.wait(lock, [&] { return done; });
  }
  std::function<void(std::function<void()>)> poster() {
    return [this](std::function<void()> work) { post(std::move(work)); };
  }

 private:
  void run() {
    while (!ending_) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !queue_.empty(); });
      const auto work = std::move(queue_.front());
      queue_.pop();
      lock.unlock();
      work();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::queue<std::function<void()>> queue_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace hearth::testing

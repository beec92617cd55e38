// The owner's thread of an adapter, for tests.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace hearth::testing {

// A thread that runs an io_context, and what is posted to it in order.
class Owner {
 public:
  Owner() : thread_([this] { io_.run(); }) {}
  ~Owner() {
    post([this] { io_.stop(); });
    thread_.join();
  }
  boost::asio::io_context& io() { return io_; }
  void post(std::function<void()> work) { boost::asio::post(io_, std::move(work)); }
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

 private:
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::thread thread_;
};

}  // namespace hearth::testing

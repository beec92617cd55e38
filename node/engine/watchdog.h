// Watchdog: reports a call that does not return in time. It has a thread of its own, because the
// calling thread is blocked and cannot check a clock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace hearth::node {

class Watchdog {
 public:
  // `expired` is called on the watchdog's thread, at most once in its life.
  Watchdog(std::chrono::milliseconds limit, std::function<void()> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // A call begins and ends; between the two runs the limit. One call at a time.
  void begin();
  void end();

 private:
  void watch();

  const std::chrono::milliseconds limit_;
  const std::function<void()> expired_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;
  bool stopping_ = false;
  std::chrono::steady_clock::time_point deadline_;
  std::thread thread_;
};

}  // namespace hearth::node

// Watchdog: reports a call that does not return in time. It has a thread of its own, because the
// calling thread is blocked and cannot check a clock.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "base/thread_annotations.h"

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
  Mutex mutex_;
  CondVar changed_;
  bool running_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point deadline_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace hearth::node

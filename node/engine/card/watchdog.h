// Watchdog: reports a call that does not return in time. It has a thread of its own, because the
// calling thread is blocked and cannot check a clock.
#pragma once

#include <chrono>
#include <functional>

#include "base/thread_annotations.h"
#include "base/worker_thread.h"

namespace hearth::node {

class Watchdog {
 public:
  // `expired` is called on the watchdog's thread, at most once in its life.
  Watchdog(std::chrono::milliseconds limit, std::function<void()> expired);

  // Mark the begin and the end of a call, between which the limit runs. One call at a time.
  void begin();
  void end();

 private:
  void watch();

  const std::chrono::milliseconds limit_;
  const std::function<void()> expired_;
  Mutex mutex_;
  bool running_ GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point deadline_ GUARDED_BY(mutex_);
  WorkerThread worker_{{.max_cost = 1}};  // last: it uses all of the above
};

}  // namespace hearth::node

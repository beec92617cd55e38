#include "node/engine/card/watchdog.h"

#include <utility>

#include "base/check.h"

namespace hearth::node {

Watchdog::Watchdog(std::chrono::milliseconds limit, std::function<void()> expired)
    : limit_(limit), expired_(std::move(expired)) {
  worker_.post([this] { watch(); });
}

// begin() does not wake the thread, so that a call costs no context switch: the thread checks every
// quarter of the limit.
void Watchdog::begin() {
  const MutexLock lock(mutex_);
  running_ = true;
  deadline_ = std::chrono::steady_clock::now() + limit_;
}

void Watchdog::end() {
  const MutexLock lock(mutex_);
  INVARIANT(running_, "a call that ends has begun");
  running_ = false;
}

void Watchdog::watch() {
  while (worker_.sleep_for(limit_ / 4)) {
    {
      const MutexLock lock(mutex_);
      if (!running_ || std::chrono::steady_clock::now() < deadline_) continue;
    }
    return expired_();
  }
}

}  // namespace hearth::node

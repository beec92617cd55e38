// ThreadPins: fixes each compute thread of a pool to a CPU of its own, if the user asks for it.
// This works only if the thread that creates the pool may run on exactly as many CPUs as the pool
// has threads. With fewer threads, the kernel chooses better CPUs when other programs run; with
// more, two threads would share one.
#pragma once

#include <sched.h>

#include <thread>
#include <vector>

#include "base/result.h"

namespace hearth::kernels {

// Whether this many threads of the calling one can be pinned; otherwise an error with the figures.
Status check_pins(unsigned threads);

class ThreadPins {
 public:
  // For a pool that the calling thread creates. The CPUs on which that thread could run before any
  // pool pinned it count.
  ThreadPins(unsigned threads, bool wanted);
  // Unpins the creating thread, if that thread destroys this object and has no other pins.
  ~ThreadPins();
  ThreadPins(const ThreadPins&) = delete;
  ThreadPins& operator=(const ThreadPins&) = delete;

  // Called by thread `thread` of the pool; 0 is the one that made it.
  void hold(unsigned thread) const;

 private:
  std::vector<unsigned> cpus_;  // of each thread; empty: not pinned
  cpu_set_t all_;               // where the maker might run
  const bool maker_pinned_;     // by another pool of its
  const std::thread::id maker_ = std::this_thread::get_id();
};

}  // namespace hearth::kernels

// ThreadPins: each compute thread of a pool on a cpu of its own, for who asked for it. Only where
// the thread that makes the pool may run on exactly as many cpus as the pool has threads: with
// fewer threads the kernel finds a better cpu than we do whenever something else wants one, with
// more two of them would share.
#pragma once

#include <sched.h>

#include <thread>
#include <vector>

#include "base/result.h"

namespace hearth::kernels {

// Whether so many threads of the calling one can be pinned; else an error with the figures.
Status check_pins(unsigned threads);

class ThreadPins {
 public:
  // Of a pool that the calling thread makes. What counts is where it might run before any pool
  // pinned it.
  ThreadPins(unsigned threads, bool wanted);
  // Lets go of the thread that made it, when that thread ends it and no other pins of its stand.
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

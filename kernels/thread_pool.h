// ThreadPool: a fixed set of threads that share loops. The caller of parallel_for takes part, and a
// call never waits for a worker that has not yet started on it, so that a busy machine delays no
// call.
//
//   pool->parallel_for(groups, 4, [&](std::uint32_t begin, std::uint32_t end, unsigned thread)
//   {...});
//
// Idle workers wait for about 2 ms, yielding to other threads, then sleep. One parallel_for runs at
// a time, and none starts from inside a task. Tasks must not throw.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "kernels/thread_pins.h"

namespace hearth::kernels {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 runs everything inline. Every thread, the caller's included, has
  // its float environment checked; the first failure is returned. `pin`: kernels/thread_pins.h; the
  // calling thread is then the only one that may call parallel_for.
  static Result<std::unique_ptr<ThreadPool>> create(unsigned threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

  // Calls task(begin, end, thread) for disjoint ranges of at most `grain` units that cover
  // [0, units); thread is in [0, threads()). Returns when all have returned.
  template <typename Task>
  void parallel_for(std::uint32_t units, std::uint32_t grain, Task&& task) {
    using Plain = std::remove_reference_t<Task>;
    run(
        units, grain,
        [](void* context, std::uint32_t begin, std::uint32_t end, unsigned thread) {
          (*static_cast<Plain*>(context))(begin, end, thread);
        },
        const_cast<void*>(static_cast<const void*>(&task)));
  }

 private:
  using Call = void (*)(void* context, std::uint32_t begin, std::uint32_t end, unsigned thread);

  ThreadPool(unsigned threads, bool pin) : pins_(threads, pin) {}
  void run(std::uint32_t units, std::uint32_t grain, Call call, void* context);
  void work(unsigned thread);
  // Claims and runs ranges of job `number` until all are claimed.
  void take_part(std::uint32_t number, unsigned thread);

  // The job. ticket = (number << 32) | next unit. A worker that reads the other fields late claims
  // with an old number, fails, and never acts on them.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  std::atomic<std::uint32_t> units_{0};
  std::atomic<std::uint32_t> grain_{1};
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  alignas(64) std::atomic<std::uint32_t> done_{0};    // units finished of this job
  alignas(64) std::atomic<std::uint32_t> number_{0};  // what sleepers wait on
  std::atomic<bool> stopping_{false};
  std::atomic<unsigned> started_{1};  // threads whose environment is checked
  const ThreadPins pins_;
  std::vector<std::thread> workers_;
};

}  // namespace hearth::kernels

#include "kernels/thread_pins.h"

#include <pthread.h>

namespace hearth::kernels {
namespace {

// The CPUs on which a thread that creates pools could run before its first pool pinned it.
struct Maker {
  unsigned pins = 0;  // that stand
  cpu_set_t before;
};
thread_local Maker maker;

// False if the call fails, because there are more CPUs than a cpu_set_t holds.
bool read_allowed(cpu_set_t& cpus) {
  if (maker.pins > 0) {
    cpus = maker.before;
    return true;
  }
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0;
}

}  // namespace

Status check_pins(unsigned threads) {
  cpu_set_t cpus;
  const int allowed = read_allowed(cpus) ? CPU_COUNT(&cpus) : 0;
  REQUIRE(allowed > 0, "threads are not pinned: the cpus of this process are not known");
  REQUIRE(static_cast<unsigned>(allowed) == threads, "threads are not pinned: ", threads,
          " compute threads, ", allowed, " cpus");
  return ok_status();
}

ThreadPins::ThreadPins(unsigned threads, bool wanted) : maker_pinned_(maker.pins > 0) {
  if (!read_allowed(all_) || !wanted || !check_pins(threads)) return;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all_)) cpus_.push_back(cpu);
  }
  if (maker.pins++ == 0) maker.before = all_;
}

ThreadPins::~ThreadPins() {
  if (cpus_.empty() || std::this_thread::get_id() != maker_) return;
  if (--maker.pins == 0) pthread_setaffinity_np(pthread_self(), sizeof all_, &all_);
}

// If the cpu is gone by now, the thread stays where the kernel puts it.
void ThreadPins::hold(unsigned thread) const {
  if (cpus_.empty()) {
    // A thread starts with the affinity of its maker.
    if (maker_pinned_ && thread > 0) pthread_setaffinity_np(pthread_self(), sizeof all_, &all_);
    return;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpus_[thread], &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

}  // namespace hearth::kernels

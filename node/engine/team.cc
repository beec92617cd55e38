#include "node/engine/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hearth::node {
namespace {

constexpr int kSpins = 4'000;  // about 50 us, well above the time between two barriers of a step

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Spins first: the others are mostly a microsecond away. Sleeps then: an idle engine uses no time.
void wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Team::Team(std::uint32_t threads) : size_(threads == 0 ? 1 : threads) {
  try {
    for (std::uint32_t i = 1; i < size_; ++i) threads_.emplace_back([this, i] { serve(i); });
  } catch (...) {
    stop();
    throw;
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  stopping_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Team::serve(std::uint32_t member) {
  std::uint32_t round = 0;
  for (;;) {
    wait_for_change(round_, round);
    ++round;
    if (stopping_) return;
    (*work_)(member);
    barrier();
  }
}

void Team::run(const std::function<void(std::uint32_t)>& work) {
  if (size_ == 1) return work(0);
  work_ = &work;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  barrier();
}

void Team::barrier() {
  if (size_ == 1) return;
  const std::uint32_t passed = passed_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    passed_.store(passed + 1, std::memory_order_release);
    passed_.notify_all();
  } else {
    wait_for_change(passed_, passed);
  }
}

}  // namespace hearth::node

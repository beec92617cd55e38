#include "kernels/thread_pool.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/pause.h"
#include "kernels/kernels.h"

namespace hearth::kernels {
namespace {

// A waiting thread pauses first: the next loop of a step is a microsecond away. Then it yields its
// core to other threads, and in the end it sleeps.
constexpr int kPauses = 150;   // of about 20 to 40 ns
constexpr int kYields = 4000;  // of about 0.5 us on an idle machine: the pause between two steps

constexpr std::uint32_t kClosed = 0xFFFFFFFF;  // a ticket's unit while the job is being set up

// Waits until `value` differs from `old`, or until a notification.
void wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int i = 0; i < kPauses; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
}

std::uint32_t number_of(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket >> 32); }
std::uint32_t unit_of(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket); }

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(unsigned threads, bool pin) {
  REQUIRE(threads >= 1, "a thread pool needs at least one thread");
  TRY_VOID(check_float_environment());
  std::unique_ptr<ThreadPool> pool(new ThreadPool(threads, pin));
  std::mutex mutex;
  std::optional<Error> failure;
  for (unsigned i = 1; i < threads; ++i) {
    try {
      pool->workers_.emplace_back([&, self = pool.get(), i] {
        if (const Status status = check_float_environment(); !status.ok()) {
          const std::lock_guard lock(mutex);
          failure = status.error();
        }
        self->pins_.hold(i);
        self->started_.fetch_add(1);
        self->started_.notify_one();
        self->work(i);
      });
    } catch (const std::system_error& error) {
      const std::lock_guard lock(mutex);
      failure = Error::of(ErrorCode::kNoCapacity, "a compute thread cannot start: ", error.what());
      break;
    }
  }
  for (unsigned seen = pool->started_.load(); seen != pool->threads();
       seen = pool->started_.load()) {
    pool->started_.wait(seen);
  }
  const std::lock_guard lock(mutex);
  if (failure) return std::move(*failure);
  pool->pins_.hold(0);
  return pool;
}

ThreadPool::~ThreadPool() {
  stopping_.store(true);
  number_.fetch_add(1);
  number_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::uint32_t units, std::uint32_t grain, Call call, void* context) {
  INVARIANT(units < kClosed, "a loop has fewer units than a closed ticket says");
  grain = std::max(grain, 1U);
  if (workers_.empty() || units <= grain) {
    for (std::uint32_t at = 0; at < units; at += std::min(grain, units - at)) {
      call(context, at, at + std::min(grain, units - at), 0);
    }
    return;
  }
  const std::uint32_t number = number_.load(std::memory_order_relaxed) + 1;
  // The ticket is closed first: a worker still at the finished job must not claim by the new job's
  // fields. Release here and acquire there make a thread that sees one of these fields see the
  // closed ticket as well.
  ticket_.store((std::uint64_t{number} << 32) | kClosed, std::memory_order_relaxed);
  units_.store(units, std::memory_order_release);
  grain_.store(grain, std::memory_order_release);
  call_.store(call, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  done_.store(0, std::memory_order_relaxed);
  ticket_.store(std::uint64_t{number} << 32, std::memory_order_release);
  number_.store(number);
  number_.notify_all();

  take_part(number, 0);
  for (std::uint32_t seen = done_.load(std::memory_order_acquire); seen != units;
       seen = done_.load(std::memory_order_acquire)) {
    wait_for_change(done_, seen);
  }
}

void ThreadPool::take_part(std::uint32_t number, unsigned thread) {
  std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (number_of(ticket) == number) {
    const std::uint32_t units = units_.load(std::memory_order_acquire);
    const std::uint32_t grain = grain_.load(std::memory_order_acquire);
    const Call call = call_.load(std::memory_order_acquire);
    void* context = context_.load(std::memory_order_acquire);
    const std::uint32_t begin = unit_of(ticket);
    if (begin >= units) return;
    const std::uint32_t size = std::min(grain, units - begin);
    // Success proves that the fields above are this job's, because the caller closes the ticket
    // before it sets the next job's fields.
    if (!ticket_.compare_exchange_weak(ticket, ticket + size, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      continue;
    }
    call(context, begin, begin + size, thread);
    const std::uint32_t done = done_.fetch_add(size, std::memory_order_acq_rel) + size;
    INVARIANT(done <= units, "each unit of a loop is claimed once");
    if (done == units) done_.notify_one();
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work(unsigned thread) {
  std::uint32_t last = 0;
  for (;;) {
    wait_for_change(number_, last);
    const std::uint32_t number = number_.load(std::memory_order_acquire);
    if (number == last) continue;
    if (stopping_.load()) return;
    last = number;
    take_part(number, thread);
  }
}

}  // namespace hearth::kernels

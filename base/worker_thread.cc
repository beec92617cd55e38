#include "base/worker_thread.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hearth {

using SteadyClock = std::chrono::steady_clock;

WorkerThread::WorkerThread(const Options& options) : options_(options) {
  INVARIANT(options.max_cost >= 1, "a queue has a bound, and room for a task");
  INVARIANT(options.gather >= Duration(0), "a delay is not negative");
  if (!options_.schedule) thread_ = std::thread([this] { run(); });
}

WorkerThread::~WorkerThread() { stop(); }

void WorkerThread::schedule(Duration delay, Task task) {
  options_.schedule(delay, [alive = alive_, task = std::move(task)] {
    if (*alive) task();
  });
}

// In place of the thread: runs all waiting tasks in order.
void WorkerThread::run_waiting() {
  MutexLock lock(mutex_);
  while (!waiting_.empty()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    next.task();
    next.task = nullptr;
    lock.lock();
    INVARIANT(cost_ >= next.cost, "the running task is part of the cost");
    cost_ -= next.cost;
  }
}

bool WorkerThread::post(Task task, std::size_t cost, Urgency urgency) {
  INVARIANT(task != nullptr, "a task can be run");
  const MutexLock lock(mutex_);
  INVARIANT(cost_ <= options_.max_cost, "the queue keeps its bound");
  if (stopping_ || cost > options_.max_cost - cost_) return false;
  cost_ += cost;
  waiting_.push_back({std::move(task), cost});
  urgent_ = urgent_ || urgency == Urgency::kNow || cost_ > options_.gathered_cost;
  if (options_.schedule) {
    schedule(std::exchange(urgent_, false) ? Duration(0) : options_.gather,
             [this] { run_waiting(); });
    return true;
  }
  if (urgent_ || !gathering_) wake_.notify_all();
  return true;
}

void WorkerThread::post_after(Duration delay, Task task) {
  INVARIANT(task != nullptr, "a task can be run");
  const MutexLock lock(mutex_);
  if (stopping_) return;
  if (options_.schedule) return schedule(delay, std::move(task));
  INVARIANT(delayed_.size() < kMaxDelayed, "few tasks are delayed at a time");
  delayed_.push_back({SteadyClock::now() + delay, std::move(task)});
  wake_.notify_all();
}

bool WorkerThread::sleep_for(Duration duration) {
  INVARIANT(std::this_thread::get_id() == thread_.get_id(), "a task sleeps on its own thread");
  const SteadyClock::time_point end = SteadyClock::now() + duration;
  const MutexLock lock(mutex_);
  while (!stopping_ && SteadyClock::now() < end) wake_.wait_until(mutex_, end);
  return !stopping_;
}

bool WorkerThread::stopping() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

void WorkerThread::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (options_.schedule) {
    *alive_ = false;
    if (options_.when_stopped == WhenStopped::kFinish) run_waiting();
  } else {
    if (!thread_.joinable()) return;
    INVARIANT(std::this_thread::get_id() != thread_.get_id(),
              "a task does not join its own thread");
    thread_.join();
  }
  std::deque<Waiting> discarded;
  std::vector<Delayed> delayed;
  {
    const MutexLock lock(mutex_);
    discarded.swap(waiting_);
    delayed.swap(delayed_);
    for (const Waiting& one : discarded) cost_ -= one.cost;
    INVARIANT(cost_ == 0, "every task gives its cost back");
  }
}

void WorkerThread::run() {
  MutexLock lock(mutex_);
  Waiting next;
  while (wait_for_task(next)) {
    lock.unlock();
    next.task();
    next.task = nullptr;  // what it holds counts until it is freed
    lock.lock();
    INVARIANT(cost_ >= next.cost, "the running task is part of the cost");
    cost_ -= next.cost;
  }
}

bool WorkerThread::wait_for_task(Waiting& next) {
  while (true) {
    move_due();
    if (stopping_ && (options_.when_stopped == WhenStopped::kDiscard || waiting_.empty())) {
      return false;
    }
    if (!waiting_.empty()) {
      if (urgent_ || stopping_ || options_.gather == Duration(0)) break;
      gather();
      if (stopping_) continue;
      break;
    }
    urgent_ = false;
    if (delayed_.empty()) {
      wake_.wait(mutex_);
    } else {
      const auto first =
          std::min_element(delayed_.begin(), delayed_.end(),
                           [](const Delayed& a, const Delayed& b) { return a.due < b.due; });
      wake_.wait_until(mutex_, first->due);
    }
  }
  next = std::move(waiting_.front());
  waiting_.pop_front();
  urgent_ = !waiting_.empty();  // all gathered tasks are run
  return true;
}

void WorkerThread::gather() {
  const SteadyClock::time_point end = SteadyClock::now() + options_.gather;
  gathering_ = true;
  while (!stopping_ && !urgent_ && SteadyClock::now() < end) wake_.wait_until(mutex_, end);
  gathering_ = false;
}

void WorkerThread::move_due() {
  if (delayed_.empty() || stopping_) return;
  std::stable_sort(delayed_.begin(), delayed_.end(),
                   [](const Delayed& a, const Delayed& b) { return a.due < b.due; });
  const SteadyClock::time_point now = SteadyClock::now();
  const auto later = std::find_if(delayed_.begin(), delayed_.end(),
                                  [&](const Delayed& one) { return one.due > now; });
  for (auto due = delayed_.begin(); due != later; ++due) {
    waiting_.push_back({std::move(due->task), 0});
    urgent_ = true;
  }
  delayed_.erase(delayed_.begin(), later);
}

}  // namespace hearth

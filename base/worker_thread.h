// WorkerThread: a thread that runs tasks one after the other, from a queue with a bound.
//
// For work that must not delay the thread that requests it: hashing, writing to disk, reading
// pieces of a file. Every task has a cost (1, or the bytes that it holds); the sum of the waiting
// and the running tasks is bounded, and Options say what happens to the tasks that wait when the
// thread stops. Results go back through a function that the owner gives its tasks; a task must not
// outlive what it refers to, so the owner declares the WorkerThread last, and it stops first.
//
// With a Schedule there is no thread: the schedule decides where and when tasks run. A simulation
// uses it to run them in simulated time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/thread_annotations.h"

namespace hearth {

class WorkerThread {
 public:
  using Task = std::function<void()>;
  // Runs the task after the delay, later than this call returns, on the owner's thread.
  using Schedule = std::function<void(Duration delay, Task task)>;

  enum class WhenStopped : std::uint8_t {
    kDiscard,  // waiting tasks are destroyed without being run
    kFinish,   // they are run
  };
  enum class Urgency : std::uint8_t {
    kNow,
    kGathered,  // may wait for Options::gather, so that several tasks are run at one waking
  };

  struct Options {
    std::size_t max_cost = 0;  // at least 1
    WhenStopped when_stopped = WhenStopped::kDiscard;
    Duration gather{0};             // gathered tasks start after so long,
    std::size_t gathered_cost = 0;  // or when together they cost more than this
    Schedule schedule = {};         // null: a thread is started
  };

  explicit WorkerThread(const Options& options);
  ~WorkerThread();  // stops
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // Any thread. False: the task was refused, because the queue is full or the thread stops.
  bool post(Task task, std::size_t cost = 1, Urgency urgency = Urgency::kNow);
  // Runs the task after the delay, behind the tasks that are due. At most kMaxDelayed wait; they
  // cost nothing and are discarded when the thread stops. Any thread.
  void post_after(Duration delay, Task task);

  // On the thread, inside a task: waits for so long, or until the thread stops: then false. Not
  // with a Schedule.
  bool sleep_for(Duration duration);
  bool stopping() const;

  // Waits for the running task. Not from a task. Idempotent.
  void stop();

  static constexpr std::size_t kMaxDelayed = 64;

 private:
  struct Waiting {
    Task task;
    std::size_t cost = 0;
  };
  struct Delayed {
    std::chrono::steady_clock::time_point due;
    Task task;
  };

  void run();
  void schedule(Duration delay, Task task);
  void run_waiting();
  // Waits for a task that may start. False: the thread stops, and no further task must run.
  bool wait_for_task(Waiting& next) REQUIRES_LOCK(mutex_);
  void gather() REQUIRES_LOCK(mutex_);
  void move_due() REQUIRES_LOCK(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);
  std::vector<Delayed> delayed_ GUARDED_BY(mutex_);
  std::size_t cost_ GUARDED_BY(mutex_) = 0;    // of the waiting and the running tasks
  bool urgent_ GUARDED_BY(mutex_) = false;     // a waiting task starts at once, and all before it
  bool gathering_ GUARDED_BY(mutex_) = false;  // the thread wakes by itself soon
  bool stopping_ GUARDED_BY(mutex_) = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // of scheduled tasks
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace hearth

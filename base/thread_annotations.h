// Mutex, lock and condition variable with clang's thread-safety annotations.
//
// A member marked GUARDED_BY(mutex_) is read and written only with the mutex held, and a function
// marked REQUIRES_LOCK(mutex_) is called only with it held. Clang checks both
// (tests/house/thread_safety); for other compilers the annotations are empty. The types are those
// of the standard library, which carries no annotations.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define HEARTH_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define HEARTH_THREAD_ANNOTATION(x)
#endif

// Abseil, which gRPC includes, defines this name alike.
#undef GUARDED_BY
#define GUARDED_BY(mutex) HEARTH_THREAD_ANNOTATION(guarded_by(mutex))
#define REQUIRES_LOCK(...) HEARTH_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define ACQUIRES_LOCK(...) HEARTH_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASES_LOCK(...) HEARTH_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace hearth {

class HEARTH_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ACQUIRES_LOCK() { mutex_.lock(); }
  void unlock() RELEASES_LOCK() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds the mutex for its scope; may be released and taken again within it.
class HEARTH_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRES_LOCK(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASES_LOCK() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ACQUIRES_LOCK() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() RELEASES_LOCK() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// Waits release the mutex and hold it again when they return. They may return early: callers check
// their condition in a loop, where the analysis sees that the mutex is held.
class CondVar {
 public:
  void wait(Mutex& mutex) REQUIRES_LOCK(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    wake_.wait(held);
    held.release();
  }
  // False: the time is over.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point end) REQUIRES_LOCK(mutex) {
    std::unique_lock held(mutex.mutex_, std::adopt_lock);
    const bool notified = wake_.wait_until(held, end) == std::cv_status::no_timeout;
    held.release();
    return notified;
  }
  void notify_one() { wake_.notify_one(); }
  void notify_all() { wake_.notify_all(); }

 private:
  std::condition_variable wake_;
};

}  // namespace hearth

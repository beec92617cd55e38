// LeaseWatch: takes part in the lease of a folder's store in PostgreSQL, on a thread of its own,
// from start() until it is destroyed, which gives the lease back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/thread_annotations.h"
#include "coordinator/store/lease.h"
#include "coordinator/store/postgres_lease.h"

namespace hearth::coordinator {

// Counts the time for which a machine sleeps.
class LeaseClock final : public Clock {
 public:
  TimePoint now() const override;
  std::int64_t unix_seconds() const override { return SystemClock().unix_seconds(); }
};

class LeaseWatch {
 public:
  // `api`, `control` and `cluster`: of this coordinator, as LeaseSelf has them. Null: the folder's
  // store is SQLite, which one process uses alone. kRefused when the store's coordinators have
  // other keys; else errors as open_store().
  static Result<std::unique_ptr<LeaseWatch>> start(const std::string& folder, std::string api,
                                                   std::string control, std::string cluster,
                                                   const LeaseTimes& times = {});
  ~LeaseWatch();
  LeaseWatch(const LeaseWatch&) = delete;
  LeaseWatch& operator=(const LeaseWatch&) = delete;

  // Any thread, as everything here.
  const std::string& store() const { return shown_; }  // without a password
  const LeasePeer& self() const { return self_; }
  std::uint64_t led() const;  // the epoch in which this coordinator leads now; 0: it does not
  LeaseTerm term() const { return {led(), id_}; }
  // The newest answer of the store; `left` is from now on, as this coordinator counts it.
  LeaseView view() const;
  std::string away() const;  // why the store did not answer the last question; empty: it did
  void give_back();          // as LeaseCandidate

 private:
  LeaseWatch(const StoreUrl& url, const LeaseSelf& self, const LeaseTimes& times);
  void run();
  bool turn();
  void wake() const;
  Error older_copy(const LeaseView& view) const REQUIRES_LOCK(mutex_);
  void wait(TimePoint wake);

  const LeaseClock clock_{};
  const std::string shown_;
  const std::string id_;
  const LeasePeer self_;
  Descriptor wakes_;     // an eventfd
  PostgresLease store_;  // thread only, after start()
  mutable Mutex mutex_;
  LeaseCandidate candidate_ GUARDED_BY(mutex_);
  LeaseView view_ GUARDED_BY(mutex_);
  std::string away_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace hearth::coordinator

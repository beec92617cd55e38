// The lease of a store in PostgreSQL: the one row of its table lease, and the standbys in its table
// coordinators. It has a connection of its own, which a question makes again when it is lost. One
// thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "coordinator/store/lease.h"
#include "coordinator/store/postgres_database.h"

namespace hearth::coordinator {

// A coordinator's entry in the store.
struct LeaseSelf {
  std::string id;  // as LeaseCandidate has it
  LeasePeer peer;
  // The cluster key and the node key, which all coordinators of a store have. The first one with a
  // text decides. Empty: of a command, which signs nothing.
  std::string cluster;
};
// Of this process.
LeaseSelf lease_self(std::string api, std::string control, std::string cluster);

class PostgresLease final : public LeaseStore {
 public:
  // `lease`: how long a lease lasts after a renewal. `also_moved`: as in
  // PostgresOptions.
  PostgresLease(StoreUrl url, LeaseSelf self, Duration lease, bool also_moved = false);

  Result<LeaseView> ask(const LeaseQuestion& question) override;
  // It can be read after a notice of another coordinator. -1: not connected.
  int socket() const { return db_ == nullptr ? -1 : db_->socket(); }
  const StoreUrl& url() const { return url_; }

 private:
  Status connect();
  Status change(const LeaseQuestion& question);
  Status show_standby();

  const StoreUrl url_;
  const LeaseSelf self_;
  const Duration lease_;
  const bool also_moved_;
  std::unique_ptr<PostgresDatabase> db_;
  std::chrono::steady_clock::time_point shown_{};  // as a standby, the last time
};

// The lease as it is now.
Result<LeaseView> read_lease(PostgresDatabase& db);

}  // namespace hearth::coordinator

// The store of a server, in PostgreSQL: reads come from a copy in memory, writes go to the database
// first. So a database that is away, or late, stops no request: it refuses only what must be
// written (kUnavailable).
//
// A thread holds the connection: it connects again, and copies the rows when another process has
// changed them. A database that is away costs a caller at most limits::kStoreMilliseconds, once.
// Everything is written under the epoch of a lease (lease.h), so that a coordinator that does not
// lead any more writes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/thread_annotations.h"
#include "coordinator/store/postgres_database.h"
#include "coordinator/store/sql_store.h"
#include "coordinator/store/store.h"

namespace hearth::coordinator {

class MirroredStore final : public Store {
 public:
  // kRefused when `term` is not in force. `on_lost`: as in open_server_store().
  static Result<std::shared_ptr<MirroredStore>> open(const StoreUrl& url, const LeaseTerm& term,
                                                     std::function<void(const Error&)> on_lost);
  ~MirroredStore() override;

  const Hash256& secret_key() const override { return secret_; }
  Status add_token(const TokenRecord& token) override;
  Result<std::optional<TokenRecord>> find_token(std::string_view id) override;
  Result<std::vector<TokenRecord>> tokens() override;
  Result<bool> any_token(std::int64_t now) override;
  Result<bool> revoke_token(std::string_view id) override;
  Status admit(const Admission& admission) override;
  Result<std::optional<NodeRecord>> find_node(const PublicKey& key) override;
  Result<std::vector<NodeRecord>> nodes() override;
  Result<bool> revoke_node(const PublicKey& key) override;
  Result<std::optional<std::uint64_t>> roster_number() override;
  Status note_roster(std::uint64_t number) override;
  Status restore(std::uint64_t number, const std::vector<PublicKey>& out,
                 const std::vector<NodeRecord>& in) override;
  Status put_waiting(const WaitingNode& node) override;
  Result<std::vector<WaitingNode>> waiting() override;
  Status forget_waiting(std::int64_t seen_before) override;
  Result<Machines> machines() override;
  Status put_machines(const Machines& machines) override;
  Status add_key(const ApiKey& key) override;
  Status replace_key(const ApiKey& key) override;
  Result<std::optional<ApiKey>> find_key(std::string_view id) override;
  Result<std::vector<ApiKey>> keys() override;
  Result<bool> revoke_key(std::string_view id_or_name) override;

 private:
  struct Remote {
    std::unique_ptr<SqlStore> store;
    PostgresDatabase* database = nullptr;  // of the store
  };

  MirroredStore(StoreUrl url, LeaseTerm term, std::function<void(const Error&)> on_lost);

  Result<Remote> connect() const;
  Status check_term(PostgresDatabase& database) const;
  Status begin();
  template <typename Work>
  std::invoke_result_t<Work, Store&> write(Work work);
  std::shared_ptr<SqlStore> mirror() const;
  Status check_newest(const PostgresDatabase::Head& head) REQUIRES_LOCK(mutex_);
  Status copy() REQUIRES_LOCK(mutex_);
  Status follow() REQUIRES_LOCK(mutex_);
  void note_loss(const Error& why) REQUIRES_LOCK(mutex_);
  void wake() const;
  void run();
  bool connect_again();

  const StoreUrl url_;
  const LeaseTerm term_;
  const std::function<void(const Error&)> on_lost_;
  Descriptor wakes_;            // an eventfd
  Hash256 secret_;              // unchanged after open()
  mutable Mutex mirror_mutex_;  // for the pointer; the mirror locks by itself
  std::shared_ptr<SqlStore> mirror_ GUARDED_BY(mirror_mutex_);
  Mutex mutex_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::optional<Remote> remote_ GUARDED_BY(mutex_);  // nothing: it is away
  std::string away_ GUARDED_BY(mutex_);              // why
  std::int64_t copied_ GUARDED_BY(mutex_) = -1;      // Head::changes of the mirror's rows
  std::int64_t seen_ GUARDED_BY(mutex_) = 0;         // the most of Head::changes
  std::thread thread_;
};

}  // namespace hearth::coordinator

// The Store on a Database, which holds its rows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_annotations.h"
#include "coordinator/store/database.h"
#include "coordinator/store/store.h"
#include "coordinator/store/store_rows.h"

namespace hearth::coordinator {

class SqlStore final : public Store {
 public:
  static Result<std::unique_ptr<SqlStore>> open(std::unique_ptr<Database> db);

  // All rows of one moment.
  Result<StoreRows> rows();

  const Hash256& secret_key() const override { return secret_key_; }
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
  explicit SqlStore(std::unique_ptr<Database> db) : db_(std::move(db)) {}

  template <typename Work>
  Status write(Work work) {
    const MutexLock lock(mutex_);
    return db_->transaction([&] { return work(*db_); });
  }
  // Of a statement that changes at most some rows: whether there were any.
  Result<bool> change(const std::string& sql, std::string_view wanted);
  template <typename Row, typename Wanted>
  Result<std::optional<Row>> find(const std::string& sql, const Wanted& wanted);
  template <typename Row>
  Result<std::vector<Row>> list(const std::string& sql) {
    const MutexLock lock(mutex_);
    return list_rows<Row>(*db_, sql);
  }

  Mutex mutex_;
  const std::unique_ptr<Database> db_;  // used with the mutex held
  Hash256 secret_key_;
};

}  // namespace hearth::coordinator

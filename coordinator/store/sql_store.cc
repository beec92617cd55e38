#include "coordinator/store/sql_store.h"

#include <limits>

#include "coordinator/store/place.h"

namespace hearth::coordinator {
namespace {

Status take_use(Database& db, const std::string& token, std::int64_t now) {
  TRY(const bool taken, Statement(db,
                                  "UPDATE tokens SET uses_left = uses_left - 1 WHERE id = $1 AND "
                                  "uses_left > 0 AND revoked = 0 AND expires > $2")
                            .add(token, now)
                            .run());
  if (!taken)
    return Error::of(ErrorCode::kRefused, "join token ", token,
                     " has no use left, has expired or was revoked");
  return ok_status();
}

// With its API key. Whether the node was a member.
Result<bool> revoke(Database& db, const PublicKey& key) {
  TRY(const bool known,
      Statement(db, "UPDATE nodes SET revoked = 1 WHERE public_key = $1 AND revoked = 0")
          .add(key)
          .run());
  TRY_VOID(
      Statement(db, "UPDATE keys SET revoked = 1 WHERE node = $1 AND revoked = 0").add(key).run());
  return known;
}

Status note(Database& db, std::uint64_t number) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  REQUIRE(number <= kMost, "a roster of the number ", number, "; the limit is ", kMost);
  return write_roster_number(db, static_cast<std::int64_t>(number));
}

}  // namespace

Result<std::unique_ptr<SqlStore>> SqlStore::open(std::unique_ptr<Database> db) {
  std::unique_ptr<SqlStore> store(new SqlStore(std::move(db)));
  TRY(store->secret_key_, read_secret(*store->db_));
  return store;
}

Result<StoreRows> SqlStore::rows() {
  const MutexLock lock(mutex_);
  StoreRows rows;
  TRY_VOID(db_->transaction(
      [&]() -> Status {
        TRY(rows, read_store(*db_));
        return ok_status();
      },
      Database::Access::kRead));
  return rows;
}

template <typename Row, typename Wanted>
Result<std::optional<Row>> SqlStore::find(const std::string& sql, const Wanted& wanted) {
  const MutexLock lock(mutex_);
  Statement statement(*db_, sql);
  TRY(const bool there, statement.add(wanted).step());
  if (!there) return std::optional<Row>();
  Row row;
  if (!read_row(statement, row)) return db_->damaged("a row has values that no version writes");
  return std::optional<Row>(std::move(row));
}

Result<bool> SqlStore::change(const std::string& sql, std::string_view wanted) {
  bool changed = false;
  TRY_VOID(write([&](Database& db) -> Status {
    TRY(changed, Statement(db, sql).add(wanted).run());
    return ok_status();
  }));
  return changed;
}

Status SqlStore::add_token(const TokenRecord& token) {
  return write([&](Database& db) { return insert_row(db, token); });
}
Result<std::optional<TokenRecord>> SqlStore::find_token(std::string_view id) {
  return find<TokenRecord>(std::string(kSelectTokens) + " WHERE id = $1", id);
}
Result<std::vector<TokenRecord>> SqlStore::tokens() {
  return list<TokenRecord>(std::string(kSelectTokens) + " ORDER BY created, rowid");
}
Result<bool> SqlStore::any_token(std::int64_t now) {
  const MutexLock lock(mutex_);
  Statement row(*db_,
                "SELECT 1 FROM tokens WHERE uses_left > 0 AND revoked = 0 AND expires > $1 LIMIT "
                "1");
  return row.add(now).step();
}
Result<bool> SqlStore::revoke_token(std::string_view id) {
  return change("UPDATE tokens SET revoked = 1 WHERE id = $1 AND revoked = 0", id);
}

Status SqlStore::admit(const Admission& admission) {
  return write([&](Database& db) -> Status {
    if (!admission.token.empty()) TRY_VOID(take_use(db, admission.token, admission.node.enrolled));
    TRY_VOID(insert_row(db, admission.node));
    TRY_VOID(
        Statement(db, "DELETE FROM waiting WHERE public_key = $1").add(admission.node.key).run());
    return admission.key ? insert_row(db, *admission.key) : ok_status();
  });
}
Result<std::optional<NodeRecord>> SqlStore::find_node(const PublicKey& key) {
  return find<NodeRecord>(std::string(kSelectNodes) + " WHERE public_key = $1", key);
}
Result<std::vector<NodeRecord>> SqlStore::nodes() {
  return list<NodeRecord>(std::string(kSelectNodes) + " ORDER BY enrolled, rowid");
}
Result<bool> SqlStore::revoke_node(const PublicKey& key) {
  bool known = false;
  TRY_VOID(write([&](Database& db) -> Status {
    TRY(known, revoke(db, key));
    return ok_status();
  }));
  return known;
}

Result<std::optional<std::uint64_t>> SqlStore::roster_number() {
  const MutexLock lock(mutex_);
  TRY(const std::int64_t number, read_roster_number(*db_));
  if (number < 0) return std::optional<std::uint64_t>();
  return std::optional(static_cast<std::uint64_t>(number));
}
Status SqlStore::note_roster(std::uint64_t number) {
  return write([&](Database& db) { return note(db, number); });
}
Status SqlStore::restore(std::uint64_t number, const std::vector<PublicKey>& out,
                         const std::vector<NodeRecord>& in) {
  return write([&](Database& db) -> Status {
    for (const PublicKey& key : out) TRY_VOID(revoke(db, key));
    for (const NodeRecord& node : in) TRY_VOID(insert_row(db, node));
    TRY_VOID(Statement(db, "UPDATE tokens SET revoked = 1 WHERE revoked = 0").run());
    return note(db, number);
  });
}

Status SqlStore::put_waiting(const WaitingNode& node) {
  return write([&](Database& db) { return put_row(db, node); });
}
Result<std::vector<WaitingNode>> SqlStore::waiting() {
  return list<WaitingNode>(std::string(kSelectWaiting) + " ORDER BY since, rowid");
}
Status SqlStore::forget_waiting(std::int64_t seen_before) {
  {
    // Most calls find nothing, and a transaction for writing waits for the disk.
    const MutexLock lock(mutex_);
    Statement old(*db_, "SELECT 1 FROM waiting WHERE seen < $1 LIMIT 1");
    TRY(const bool there, old.add(seen_before).step());
    if (!there) return ok_status();
  }
  return write([&](Database& db) -> Status {
    TRY_VOID(Statement(db, "DELETE FROM waiting WHERE seen < $1").add(seen_before).run());
    return ok_status();
  });
}

Result<Store::Machines> SqlStore::machines() {
  return list<Machines::value_type>(std::string(kSelectMachines) + " ORDER BY rowid");
}
Status SqlStore::put_machines(const Machines& machines) {
  return write([&](Database& db) -> Status {
    for (const auto& machine : machines) TRY_VOID(put_row(db, machine));
    return ok_status();
  });
}

Status SqlStore::add_key(const ApiKey& key) {
  return write([&](Database& db) { return insert_row(db, key); });
}
Status SqlStore::replace_key(const ApiKey& key) {
  return write([&](Database& db) -> Status {
    TRY(const bool there,
        Statement(db, "UPDATE nodes SET enrolled = enrolled WHERE public_key = $1 AND revoked = 0")
            .add(key.node)
            .run());
    if (!there)
      return Error{ErrorCode::kRefused, "the API key's node is not a member, or was removed"};
    TRY_VOID(Statement(db, "DELETE FROM keys WHERE node = $1").add(key.node).run());
    return insert_row(db, key);
  });
}
Result<std::optional<ApiKey>> SqlStore::find_key(std::string_view id) {
  return find<ApiKey>(std::string(kSelectKeys) + " WHERE id = $1", id);
}
Result<std::vector<ApiKey>> SqlStore::keys() {
  return list<ApiKey>(std::string(kSelectKeys) + " ORDER BY created, rowid");
}
Result<bool> SqlStore::revoke_key(std::string_view id_or_name) {
  return change("UPDATE keys SET revoked = 1 WHERE (id = $1 OR name = $1) AND revoked = 0",
                id_or_name);
}

Result<std::shared_ptr<Store>> open_store(const std::string& folder) {
  TRY(auto db, open_database(folder, Database::Flush::kEveryCommit));
  TRY(auto store, SqlStore::open(std::move(db)));
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace hearth::coordinator

#include <limits>
#include <mutex>
#include <utility>

#include "coordinator/store/database.h"
#include "coordinator/store/store.h"

namespace hearth::coordinator {
namespace {

static_assert(static_cast<int>(Role::kWorker) == 1 && Role::kAdmin < Role::kCoordinator,
              "the roles that a node joins with are the first ones");
bool joins_as(Role role) { return role >= Role::kWorker && role <= Role::kAdmin; }

// Of what is written: the coordinator's role is no node's that joins.
Status check_role(Role role) {
  REQUIRE(joins_as(role), "a node joins as worker, client or admin; its role is number " +
                              std::to_string(static_cast<int>(role)));
  return ok_status();
}

// The columns of the tables, in their order. False: a value that no version writes.
bool read_row(Statement& row, TokenRecord& out) {
  return row.read(out.id, out.secret_hash, out.role, out.created, out.expires, out.uses_left,
                  out.revoked, out.owner, out.newcomer) &&
         joins_as(out.role);
}

bool read_row(Statement& row, NodeRecord& out) {
  return row.read(out.key, out.name, out.role, out.enrolled, out.revoked, out.owner,
                  out.newcomer) &&
         joins_as(out.role);
}

bool read_row(Statement& row, ApiKey& out) {
  return row.read(out.id, out.secret_hash, out.name, out.models, out.admin, out.requests_per_minute,
                  out.created, out.revoked, out.trust, out.node, out.account, out.verify,
                  out.min_level) &&
         out.verify <= Verify::kFull && out.min_level <= ledger::Level::kVeteran;
}

bool read_row(Statement& row, WaitingNode& out) {
  return row.read(out.key, out.name, out.from, out.since, out.seen);
}

bool read_row(Statement& row, Store::Machines::value_type& out) {
  return row.read(out.first, out.second);
}

constexpr const char* kTokenColumns =
    "SELECT id, secret_hash, role, created, expires, uses_left, revoked, owner, newcomer "
    "FROM tokens";
constexpr const char* kNodeColumns =
    "SELECT public_key, name, role, enrolled, revoked, owner, newcomer FROM nodes";
constexpr const char* kKeyColumns =
    "SELECT id, secret_hash, name, models, admin, requests_per_minute, created, revoked, trust, "
    "node, account, verify, min_level FROM keys";

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(std::string path) : db_(std::move(path)) {}

  Status open() {
    TRY_VOID(db_.open(Database::Flush::kEveryCommit));
    Statement statement(db_, "SELECT key FROM secret");
    TRY(const bool there, db_.step(statement));
    if (!there || !statement.read(secret_key_)) {
      return db_.damaged("the key of its hashes is missing");
    }
    return ok_status();
  }
  const Hash256& secret_key() const override { return secret_key_; }

  Status add_token(const TokenRecord& token) override {
    TRY_VOID(check_role(token.role));
    const std::lock_guard lock(mutex_);
    Statement row(db_,
                  "INSERT INTO tokens (id, secret_hash, role, created, expires, uses_left, "
                  "revoked, owner, newcomer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    row.add(token.id, token.secret_hash, token.role, token.created, token.expires, token.uses_left,
            token.revoked, token.owner, token.newcomer);
    return inserted(row, "a join token with this id exists already");
  }
  Result<std::optional<TokenRecord>> find_token(std::string_view id) override {
    return find<TokenRecord>(std::string(kTokenColumns) + " WHERE id = ?", id);
  }
  Result<std::vector<TokenRecord>> tokens() override {
    return list<TokenRecord>(std::string(kTokenColumns) + " ORDER BY created, rowid");
  }
  Result<bool> any_token(std::int64_t now) override {
    const std::lock_guard lock(mutex_);
    Statement row(db_,
                  "SELECT 1 FROM tokens WHERE uses_left > 0 AND revoked = 0 AND expires > ? "
                  "LIMIT 1");
    return db_.step(row.add(now));
  }
  Result<bool> revoke_token(std::string_view id) override {
    const std::lock_guard lock(mutex_);
    return changed(
        Statement(db_, "UPDATE tokens SET revoked = 1 WHERE id = ? AND revoked = 0").add(id));
  }

  Status admit(const Admission& admission) override {
    return transaction([&]() -> Status {
      if (!admission.token.empty()) {
        TRY_VOID(take_use(admission.token, admission.node.enrolled));
      }
      TRY_VOID(insert_node(admission.node));
      TRY_VOID(changed(
          Statement(db_, "DELETE FROM waiting WHERE public_key = ?").add(admission.node.key)));
      return admission.key ? insert_key(*admission.key) : ok_status();
    });
  }
  Result<std::optional<NodeRecord>> find_node(const PublicKey& key) override {
    return find<NodeRecord>(std::string(kNodeColumns) + " WHERE public_key = ?", key);
  }
  Result<std::vector<NodeRecord>> nodes() override {
    return list<NodeRecord>(std::string(kNodeColumns) + " ORDER BY enrolled, rowid");
  }
  Result<bool> revoke_node(const PublicKey& key) override {
    bool known = false;
    TRY_VOID(transaction([&]() -> Status {
      TRY(known, revoke(key));
      return ok_status();
    }));
    return known;
  }

  Result<std::optional<std::uint64_t>> roster_number() override {
    const std::lock_guard lock(mutex_);
    Statement row(db_, "SELECT number FROM roster");
    TRY(const bool there, db_.step(row));
    if (!there) return db_.damaged("the number of the roster is missing");
    if (row.number(0) < 0) return std::optional<std::uint64_t>();
    return std::optional(static_cast<std::uint64_t>(row.number(0)));
  }
  Status note_roster(std::uint64_t number) override {
    const std::lock_guard lock(mutex_);
    return note(number);
  }
  Status restore(std::uint64_t number, const std::vector<PublicKey>& out,
                 const std::vector<NodeRecord>& in) override {
    return transaction([&]() -> Status {
      for (const PublicKey& key : out) TRY_VOID(revoke(key));
      for (const NodeRecord& node : in) TRY_VOID(insert_node(node));
      Statement tokens(db_, "UPDATE tokens SET revoked = 1 WHERE revoked = 0");
      TRY_VOID(changed(tokens));
      return note(number);
    });
  }

  Status put_waiting(const WaitingNode& node) override {
    const std::lock_guard lock(mutex_);
    Statement row(db_, "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?, ?)");
    row.add(node.key, node.name, node.from, node.since, node.seen);
    return inserted(row, "a node with this key waits already");
  }
  Result<std::vector<WaitingNode>> waiting() override {
    return list<WaitingNode>(
        "SELECT public_key, name, source, since, seen FROM waiting ORDER BY since, rowid");
  }
  Status forget_waiting(std::int64_t seen_before) override {
    const std::lock_guard lock(mutex_);
    TRY_VOID(changed(Statement(db_, "DELETE FROM waiting WHERE seen < ?").add(seen_before)));
    return ok_status();
  }

  Result<Machines> machines() override {
    return list<Machines::value_type>("SELECT public_key, machine FROM machines ORDER BY rowid");
  }
  Status put_machines(const Machines& machines) override {
    return transaction([&]() -> Status {
      for (const auto& [key, machine] : machines) {
        Statement row(db_, "INSERT OR REPLACE INTO machines VALUES (?, ?)");
        TRY_VOID(inserted(row.add(key, machine), "this key has a machine already"));
      }
      return ok_status();
    });
  }

  Status add_key(const ApiKey& key) override {
    const std::lock_guard lock(mutex_);
    return insert_key(key);
  }
  Status replace_key(const ApiKey& key) override {
    return transaction([&]() -> Status {
      TRY(const bool there,
          changed(Statement(db_,
                            "UPDATE nodes SET enrolled = enrolled WHERE public_key = ? AND "
                            "revoked = 0")
                      .add(key.node)));
      if (!there)
        return Error{ErrorCode::kRefused, "the API key's node is not a member, or was removed"};
      TRY_VOID(changed(Statement(db_, "DELETE FROM keys WHERE node = ?").add(key.node)));
      return insert_key(key);
    });
  }
  Result<std::optional<ApiKey>> find_key(std::string_view id) override {
    return find<ApiKey>(std::string(kKeyColumns) + " WHERE id = ?", id);
  }
  Result<std::vector<ApiKey>> keys() override {
    return list<ApiKey>(std::string(kKeyColumns) + " ORDER BY created, rowid");
  }
  Result<bool> revoke_key(std::string_view id_or_name) override {
    const std::lock_guard lock(mutex_);
    return changed(
        Statement(db_, "UPDATE keys SET revoked = 1 WHERE (id = ?1 OR name = ?1) AND revoked = 0")
            .add(id_or_name));
  }

 private:
  template <typename Work>
  Status transaction(Work work) {
    const std::lock_guard lock(mutex_);
    return db_.transaction(work);
  }

  // The following are called with the lock held.
  Status inserted(Statement& row, const std::string& taken) {
    const int code = row.step();
    if (code == SQLITE_DONE) return ok_status();
    REQUIRE(code != SQLITE_CONSTRAINT, taken);
    return db_.failed(code);
  }
  // Whether a row was changed.
  Result<bool> changed(Statement& statement) {
    TRY_VOID(db_.run(statement));
    return sqlite3_changes(db_.handle()) > 0;
  }
  Status take_use(const std::string& token, std::int64_t now) {
    TRY(const bool taken,
        changed(Statement(db_,
                          "UPDATE tokens SET uses_left = uses_left - 1 "
                          "WHERE id = ? AND uses_left > 0 AND revoked = 0 AND expires > ?")
                    .add(token, now)));
    if (!taken)
      return Error{ErrorCode::kRefused,
                   "join token " + token + " has no use left, has expired or was revoked"};
    return ok_status();
  }
  Result<bool> revoke(const PublicKey& key) {
    TRY(const bool known,
        changed(Statement(db_, "UPDATE nodes SET revoked = 1 WHERE public_key = ? AND revoked = 0")
                    .add(key)));
    TRY_VOID(changed(
        Statement(db_, "UPDATE keys SET revoked = 1 WHERE node = ? AND revoked = 0").add(key)));
    return known;
  }
  Status note(std::uint64_t number) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    REQUIRE(number <= kMost, "a roster of the number " + std::to_string(number) +
                                 "; the limit is " + std::to_string(kMost));
    TRY_VOID(changed(
        Statement(db_, "UPDATE roster SET number = ?").add(static_cast<std::int64_t>(number))));
    return ok_status();
  }
  Status insert_node(const NodeRecord& node) {
    TRY_VOID(check_role(node.role));
    Statement row(db_,
                  "INSERT INTO nodes (public_key, name, role, enrolled, revoked, owner, newcomer) "
                  "VALUES (?, ?, ?, ?, ?, ?, ?)");
    row.add(node.key, node.name, node.role, node.enrolled, node.revoked, node.owner, node.newcomer);
    return inserted(row, "a node with this key or the name '" + node.name + "' exists already");
  }
  Status insert_key(const ApiKey& key) {
    Statement row(db_, "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    row.add(key.id, key.secret_hash, key.name, key.models, key.admin, key.requests_per_minute,
            key.created, key.revoked, key.trust, key.node, key.account, key.verify, key.min_level);
    return inserted(row, "an API key with the name '" + key.name +
                             "' exists already; choose another name, or revoke that one first "
                             "(hearth key revoke)");
  }

  template <typename Row, typename Wanted>
  Result<std::optional<Row>> find(const std::string& sql, const Wanted& wanted) {
    const std::lock_guard lock(mutex_);
    Statement statement(db_, sql.c_str());
    TRY(const bool there, db_.step(statement.add(wanted)));
    if (!there) return std::optional<Row>();
    Row row;
    if (!read_row(statement, row)) return db_.damaged("a row has values that no version writes");
    return std::optional<Row>(std::move(row));
  }
  template <typename Row>
  Result<std::vector<Row>> list(const std::string& sql) {
    const std::lock_guard lock(mutex_);
    Statement statement(db_, sql.c_str());
    std::vector<Row> rows;
    while (true) {
      TRY(const bool there, db_.step(statement));
      if (!there) return rows;
      if (!read_row(statement, rows.emplace_back())) {
        return db_.damaged("a row has values that no version writes");
      }
    }
  }

  std::mutex mutex_;
  Database db_;
  Hash256 secret_key_;
};

}  // namespace

Result<std::shared_ptr<Store>> open_store(const std::string& folder) {
  auto store = std::make_shared<SqliteStore>(folder + "/hearth.db");
  TRY_VOID(store->open());
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace hearth::coordinator

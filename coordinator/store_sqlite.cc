#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "coordinator/store.h"

namespace hearth::coordinator {
namespace {

constexpr int kApplicationId = 0x48727468;  // "Hrth"
constexpr off_t kSmallestPage = 512;        // of any SQLite database
constexpr int kBusyMilliseconds = 5'000;    // for another process to end its transaction

// Step i brings a store of version i to i + 1. A step that was released never changes.
constexpr std::array kMigrations = {
    R"sql(
CREATE TABLE secret (only INTEGER PRIMARY KEY CHECK (only = 0), key BLOB NOT NULL) STRICT;
CREATE TABLE tokens (
  id TEXT PRIMARY KEY, secret_hash BLOB NOT NULL, role INTEGER NOT NULL,
  created INTEGER NOT NULL, expires INTEGER NOT NULL, uses_left INTEGER NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE nodes (
  public_key BLOB PRIMARY KEY, name TEXT NOT NULL, role INTEGER NOT NULL,
  enrolled INTEGER NOT NULL, revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX node_names ON nodes (name) WHERE revoked = 0;
CREATE TABLE keys (
  id TEXT PRIMARY KEY, secret_hash BLOB NOT NULL, name TEXT NOT NULL, models TEXT NOT NULL,
  admin INTEGER NOT NULL, requests_per_minute INTEGER NOT NULL, created INTEGER NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX key_names ON keys (name) WHERE revoked = 0;
)sql",
    "ALTER TABLE keys ADD COLUMN trust TEXT NOT NULL DEFAULT ''",
    R"sql(
ALTER TABLE keys ADD COLUMN node BLOB NOT NULL DEFAULT x'';
CREATE TABLE waiting (
  public_key BLOB PRIMARY KEY, name TEXT NOT NULL, source TEXT NOT NULL,
  since INTEGER NOT NULL, seen INTEGER NOT NULL) STRICT;
)sql",
};
constexpr int kVersion = static_cast<int>(kMigrations.size());

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// One statement, prepared, run and finalised.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    code_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& add(std::int64_t value) {
    return bound(sqlite3_bind_int64(statement_, ++index_, value));
  }
  Statement& add(std::string_view text) {
    return bound(sqlite3_bind_text64(statement_, ++index_, text.data(), text.size(),
                                     SQLITE_TRANSIENT, SQLITE_UTF8));
  }
  Statement& add(const Hash256& hash) { return add(ByteSpan(hash.bytes)); }
  Statement& add(const PublicKey& key) { return add(key.bytes()); }
  Statement& add(const std::optional<PublicKey>& key) {
    return add(key ? key->bytes() : ByteSpan());
  }

  // SQLITE_ROW, SQLITE_DONE, or what went wrong.
  int step() { return code_ != SQLITE_OK ? code_ : sqlite3_step(statement_); }

  std::int64_t number(int column) { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? std::string() : std::string(bytes, size);
  }
  // Nothing when the column has not 32 bytes.
  std::optional<Hash256> hash(int column) {
    Hash256 out;
    const ByteSpan bytes = blob(column);
    if (bytes.size() != out.bytes.size()) return std::nullopt;
    std::copy(bytes.begin(), bytes.end(), out.bytes.begin());
    return out;
  }
  // Nothing when the column is no key.
  std::optional<PublicKey> key(int column) {
    const auto key = PublicKey::parse(blob(column));
    return key.ok() ? std::optional(*key) : std::nullopt;
  }
  bool empty(int column) { return blob(column).empty(); }

 private:
  Statement& add(ByteSpan bytes) {
    // A null pointer would be a NULL.
    const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
    return bound(sqlite3_bind_blob64(statement_, ++index_, data, bytes.size(), SQLITE_TRANSIENT));
  }
  ByteSpan blob(int column) {
    const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? ByteSpan() : ByteSpan(bytes, size);
  }
  Statement& bound(int code) {
    if (code_ == SQLITE_OK) code_ = code;
    return *this;
  }
  sqlite3_stmt* statement_ = nullptr;
  int index_ = 0;
  int code_ = SQLITE_OK;
};

std::optional<Role> role_number(std::int64_t number) {
  if (number < 1 || number > static_cast<int>(Role::kAdmin)) return std::nullopt;
  return static_cast<Role>(number);
}

bool read_row(Statement& row, TokenRecord& out) {
  const auto hash = row.hash(1);
  const auto role = role_number(row.number(2));
  if (!hash || !role) return false;
  out.id = row.text(0);
  out.secret_hash = *hash;
  out.role = *role;
  out.created = row.number(3);
  out.expires = row.number(4);
  out.uses_left = static_cast<std::uint32_t>(row.number(5));
  out.revoked = row.number(6) != 0;
  return true;
}

bool read_row(Statement& row, NodeRecord& out) {
  const auto key = row.key(0);
  const auto role = role_number(row.number(2));
  if (!key || !role) return false;
  out.key = *key;
  out.name = row.text(1);
  out.role = *role;
  out.enrolled = row.number(3);
  out.revoked = row.number(4) != 0;
  return true;
}

bool read_row(Statement& row, ApiKey& out) {
  const auto hash = row.hash(1);
  if (!hash) return false;
  out.id = row.text(0);
  out.secret_hash = *hash;
  out.name = row.text(2);
  out.models = split(row.text(3));
  out.admin = row.number(4) != 0;
  out.requests_per_minute = static_cast<std::uint32_t>(row.number(5));
  out.created = row.number(6);
  out.revoked = row.number(7) != 0;
  out.trust = split(row.text(8));
  out.node = row.key(9);
  return out.node || row.empty(9);
}

bool read_row(Statement& row, WaitingNode& out) {
  const auto key = row.key(0);
  if (!key) return false;
  out.key = *key;
  out.name = row.text(1);
  out.from = row.text(2);
  out.since = row.number(3);
  out.seen = row.number(4);
  return true;
}

constexpr const char* kTokenColumns =
    "SELECT id, secret_hash, role, created, expires, uses_left, revoked FROM tokens";
constexpr const char* kNodeColumns = "SELECT public_key, name, role, enrolled, revoked FROM nodes";
constexpr const char* kKeyColumns =
    "SELECT id, secret_hash, name, models, admin, requests_per_minute, created, revoked, trust, "
    "node FROM keys";

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(std::string path) : path_(std::move(path)) {}
  ~SqliteStore() override { sqlite3_close(db_); }
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  Status open();
  const Hash256& secret_key() const override { return secret_key_; }

  Status add_token(const TokenRecord& token) override {
    const std::lock_guard lock(mutex_);
    Statement row(db_, "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?)");
    row.add(token.id).add(token.secret_hash).add(static_cast<std::int64_t>(token.role));
    row.add(token.created).add(token.expires).add(std::int64_t{token.uses_left});
    return inserted(row.add(std::int64_t{token.revoked}), "a token with this id is there");
  }
  Result<std::optional<TokenRecord>> find_token(std::string_view id) override {
    return find<TokenRecord>(std::string(kTokenColumns) + " WHERE id = ?", id);
  }
  Result<std::vector<TokenRecord>> tokens() override {
    return list<TokenRecord>(std::string(kTokenColumns) + " ORDER BY created, rowid");
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
      TRY(known,
          changed(
              Statement(db_, "UPDATE nodes SET revoked = 1 WHERE public_key = ? AND revoked = 0")
                  .add(key)));
      TRY_VOID(changed(
          Statement(db_, "UPDATE keys SET revoked = 1 WHERE node = ? AND revoked = 0").add(key)));
      return ok_status();
    }));
    return known;
  }

  Status put_waiting(const WaitingNode& node) override {
    const std::lock_guard lock(mutex_);
    Statement row(db_, "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?, ?)");
    row.add(node.key).add(node.name).add(node.from).add(node.since).add(node.seen);
    return inserted(row, "a node waits under this key");
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
      if (!there) return Error{ErrorCode::kRefused, "the node of the key is removed"};
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
  Error failed(int code) const;
  Error damaged(const std::string& what) const;
  Status create_file() const;
  Status execute(const char* sql);
  Result<std::int64_t> pragma(const char* sql);
  Status check_whole();
  Status migrate();
  Status read_secret_key();

  // All that `work` does, or nothing where it fails.
  template <typename Work>
  Status transaction(Work work) {
    const std::lock_guard lock(mutex_);
    TRY_VOID(execute("BEGIN IMMEDIATE"));
    Status done = work();
    if (done.ok()) done = execute("COMMIT");
    if (!done.ok()) static_cast<void>(execute("ROLLBACK"));
    return done;
  }

  // The following are called with the lock held.
  Status inserted(Statement& row, const std::string& taken) {
    const int code = row.step();
    if (code == SQLITE_DONE) return ok_status();
    REQUIRE(code != SQLITE_CONSTRAINT, taken);
    return failed(code);
  }
  // Whether a row was changed.
  Result<bool> changed(Statement& statement) {
    const int code = statement.step();
    if (code != SQLITE_DONE) return failed(code);
    return sqlite3_changes(db_) > 0;
  }
  Status take_use(const std::string& token, std::int64_t now) {
    TRY(const bool taken,
        changed(Statement(db_,
                          "UPDATE tokens SET uses_left = uses_left - 1 "
                          "WHERE id = ? AND uses_left > 0 AND revoked = 0 AND expires > ?")
                    .add(token)
                    .add(now)));
    if (!taken) return Error{ErrorCode::kRefused, "token " + token + " has no use left"};
    return ok_status();
  }
  Status insert_node(const NodeRecord& node) {
    Statement row(db_, "INSERT INTO nodes VALUES (?, ?, ?, ?, ?)");
    row.add(node.key).add(node.name).add(static_cast<std::int64_t>(node.role));
    row.add(node.enrolled).add(std::int64_t{node.revoked});
    return inserted(row, "a node with this key or the name '" + node.name + "' is there");
  }
  Status insert_key(const ApiKey& key) {
    Statement row(db_, "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    row.add(key.id).add(key.secret_hash).add(key.name).add(joined(key.models));
    row.add(std::int64_t{key.admin}).add(std::int64_t{key.requests_per_minute});
    row.add(key.created).add(std::int64_t{key.revoked}).add(joined(key.trust)).add(key.node);
    return inserted(row, "an API key with the name '" + key.name +
                             "' is there; choose another name, or revoke that one first (hearth "
                             "key revoke)");
  }

  template <typename Row, typename Wanted>
  Result<std::optional<Row>> find(const std::string& sql, const Wanted& wanted) {
    const std::lock_guard lock(mutex_);
    Statement statement(db_, sql.c_str());
    const int code = statement.add(wanted).step();
    if (code == SQLITE_DONE) return std::optional<Row>();
    if (code != SQLITE_ROW) return failed(code);
    Row row;
    if (!read_row(statement, row)) return damaged("a row has values that no version writes");
    return std::optional<Row>(std::move(row));
  }
  template <typename Row>
  Result<std::vector<Row>> list(const std::string& sql) {
    const std::lock_guard lock(mutex_);
    Statement statement(db_, sql.c_str());
    std::vector<Row> rows;
    int code = statement.step();
    for (; code == SQLITE_ROW; code = statement.step()) {
      if (!read_row(statement, rows.emplace_back())) {
        return damaged("a row has values that no version writes");
      }
    }
    if (code != SQLITE_DONE) return failed(code);
    return rows;
  }

  const std::string path_;
  std::mutex mutex_;
  sqlite3* db_ = nullptr;
  Hash256 secret_key_;
};

Error SqliteStore::damaged(const std::string& what) const {
  return Error::invalid("the store " + path_ + " is damaged (" + what +
                        "); put a copy of it back, or move it away and make keys and tokens anew");
}

Error SqliteStore::failed(int code) const {
  const int primary = code & 0xFF;
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) return damaged(sqlite3_errstr(code));
  if (primary == SQLITE_BUSY) {
    return {ErrorCode::kUnavailable, "the store " + path_ + " is locked by another process"};
  }
  std::string message = "the store " + path_ + ": " + sqlite3_errstr(code);
  if (primary == SQLITE_FULL) message += "; free some space and try again";
  return {ErrorCode::kIo, message};
}

// SQLite would make the file with the umask's rights, follow a link to anywhere, and take a file
// that was cut to almost nothing for a new one. A file that is there is only looked at: opening and
// closing it would end the locks that another store of this process has on it.
Status SqliteStore::create_file() const {
  constexpr int kNew = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  const int file = ::open(path_.c_str(), kNew, 0600);
  if (file >= 0) {
    ::close(file);
    return ok_status();
  }
  struct stat info {};
  if (errno != EEXIST || ::lstat(path_.c_str(), &info) != 0) {
    return Error{ErrorCode::kIo, "cannot open the store " + path_ + ": " + std::strerror(errno)};
  }
  REQUIRE(!S_ISLNK(info.st_mode), "the store " + path_ + " is a link; name the folder itself");
  REQUIRE(S_ISREG(info.st_mode), "the store " + path_ + " is no regular file");
  REQUIRE((info.st_mode & 0077) == 0, "others may read or write the store " + path_ +
                                          "; if you trust what is in it: chmod 600 " + path_);
  if (info.st_size > 0 && info.st_size < kSmallestPage) return damaged("it was cut short");
  return ok_status();
}

Status SqliteStore::execute(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return failed(code);
  return ok_status();
}

Result<std::int64_t> SqliteStore::pragma(const char* sql) {
  Statement statement(db_, sql);
  const int code = statement.step();
  if (code != SQLITE_ROW) return failed(code);
  return statement.number(0);
}

Status SqliteStore::check_whole() {
  Statement statement(db_, "PRAGMA quick_check(1)");
  const int code = statement.step();
  if (code != SQLITE_ROW) return failed(code);
  if (statement.text(0) != "ok") return damaged(statement.text(0));
  return ok_status();
}

// Within one transaction: two processes that start together make one store.
Status SqliteStore::migrate() {
  TRY(const std::int64_t version, pragma("PRAGMA user_version"));
  TRY(const std::int64_t application, pragma("PRAGMA application_id"));
  TRY(const std::int64_t tables, pragma("SELECT count(*) FROM sqlite_schema"));
  REQUIRE(application == kApplicationId || (application == 0 && version == 0 && tables == 0),
          path_ + " is an SQLite database of another program; move it away");
  if (version > kVersion) {
    return Error{ErrorCode::kVersion,
                 "the store " + path_ + " has version " + std::to_string(version) +
                     " and this hearth knows up to " + std::to_string(kVersion) +
                     "; run the newer hearth, or choose another folder with --data-dir"};
  }
  if (version < 0) return damaged("its version is negative");
  for (std::size_t i = static_cast<std::size_t>(version); i < kMigrations.size(); ++i) {
    TRY_VOID(execute(kMigrations[i]));
  }
  if (version == kVersion) return ok_status();
  if (version == 0) {
    Hash256 key;
    random_bytes(key.bytes);
    const int code = Statement(db_, "INSERT INTO secret VALUES (0, ?)").add(key).step();
    if (code != SQLITE_DONE) return failed(code);
  }
  TRY_VOID(execute(("PRAGMA application_id = " + std::to_string(kApplicationId)).c_str()));
  return execute(("PRAGMA user_version = " + std::to_string(kVersion)).c_str());
}

Status SqliteStore::read_secret_key() {
  Statement statement(db_, "SELECT key FROM secret");
  const int code = statement.step();
  if (code != SQLITE_ROW && code != SQLITE_DONE) return failed(code);
  const auto key = code == SQLITE_ROW ? statement.hash(0) : std::nullopt;
  if (!key) return damaged("the key of its hashes is missing");
  secret_key_ = *key;
  return ok_status();
}

Status SqliteStore::open() {
  TRY_VOID(create_file());
  const int code =
      sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, nullptr);
  if (code != SQLITE_OK) return failed(code);
  sqlite3_busy_timeout(db_, kBusyMilliseconds);
  TRY_VOID(check_whole());
  TRY_VOID(execute("PRAGMA journal_mode = WAL"));
  TRY_VOID(execute("PRAGMA synchronous = FULL"));
  TRY_VOID(execute("BEGIN IMMEDIATE"));
  if (const Status done = migrate(); !done.ok()) {
    static_cast<void>(execute("ROLLBACK"));
    return done;
  }
  TRY_VOID(execute("COMMIT"));
  return read_secret_key();
}

}  // namespace

Result<std::shared_ptr<Store>> open_store(const std::string& folder) {
  auto store = std::make_shared<SqliteStore>(folder + "/hearth.db");
  TRY_VOID(store->open());
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace hearth::coordinator

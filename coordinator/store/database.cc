#include "coordinator/store/database.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/limits.h"

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
    R"sql(
CREATE TABLE requests (
  id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, digest BLOB NOT NULL, owner TEXT NOT NULL,
  ended INTEGER NOT NULL, request BLOB NOT NULL) STRICT;
CREATE TABLE request_tokens (request INTEGER NOT NULL, tokens BLOB NOT NULL) STRICT;
CREATE INDEX tokens_of_request ON request_tokens (request);
)sql",
    // -1: not known, of a store that was there before.
    R"sql(
CREATE TABLE roster (only INTEGER PRIMARY KEY CHECK (only = 0), number INTEGER NOT NULL) STRICT;
INSERT INTO roster VALUES (0, -1);
)sql",
    R"sql(
ALTER TABLE tokens ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN account BLOB NOT NULL DEFAULT x'';
ALTER TABLE keys ADD COLUMN verify INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN min_level INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN newcomer INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN newcomer INTEGER NOT NULL DEFAULT 0;
)sql",
    "CREATE TABLE machines (public_key BLOB PRIMARY KEY, machine BLOB NOT NULL) STRICT",
};
constexpr int kVersion = static_cast<int>(kMigrations.size());
static_assert(kVersion > 0, "version 0 is a new, empty store");
constexpr std::uint64_t kRoomLeast = limits::kMiB;  // for the files beside a database, and its own

bool is_disk_full(const std::string& path) {
  struct statvfs disk = {};
  return ::statvfs(path.c_str(), &disk) == 0 &&
         std::uint64_t{disk.f_bavail} * disk.f_frsize < kRoomLeast;
}

}  // namespace

Error Database::damaged(const std::string& what) const {
  return Error::invalid("the store " + path_ + " is damaged (" + what +
                        "); restore a copy of it, or move it away and create API keys and join "
                        "tokens again");
}

Error Database::failed(int code) const {
  const int primary = code & 0xFF;
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) return damaged(sqlite3_errstr(code));
  if (primary == SQLITE_BUSY) {
    return {ErrorCode::kUnavailable, "the store " + path_ + " is locked by another process"};
  }
  std::string message = "the store " + path_ + ": " + sqlite3_errstr(code);
  // On a full disk a file beside the database cannot grow, which is an I/O error to SQLite.
  const bool full = primary == SQLITE_FULL || (primary == SQLITE_IOERR && is_disk_full(path_));
  if (full) message += "; its disk is full: free 1 MiB or more and try again";
  return {ErrorCode::kIo, message};
}

// SQLite would make the file with the umask's rights, follow a link to anywhere, and take a file
// that was cut to almost nothing for a new one. A file that is there is only looked at: opening and
// closing it would end the locks that another store of this process has on it.
Status Database::create_file() const {
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
  REQUIRE(S_ISREG(info.st_mode), "the store " + path_ + " is not a regular file");
  REQUIRE((info.st_mode & 0077) == 0, "others may read or write the store " + path_ +
                                          "; if you trust what is in it: chmod 600 " + path_);
  if (info.st_size > 0 && info.st_size < kSmallestPage) return damaged("it was cut short");
  return ok_status();
}

Status Database::execute(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return failed(code);
  return ok_status();
}

Result<bool> Database::step(Statement& statement) {
  const int code = statement.step();
  if (code != SQLITE_ROW && code != SQLITE_DONE) return failed(code);
  return code == SQLITE_ROW;
}

Status Database::run(Statement& statement) {
  TRY_VOID(step(statement));
  return ok_status();
}

Result<std::int64_t> Database::pragma(const char* sql) {
  Statement statement(*this, sql);
  TRY(const bool row, step(statement));
  if (!row) return failed(SQLITE_DONE);
  return statement.number(0);
}

Status Database::check_whole() {
  Statement statement(*this, "PRAGMA integrity_check(1)");
  TRY(const bool row, step(statement));
  if (!row || statement.text(0) != "ok") return damaged(statement.text(0));
  return ok_status();
}

// Within one transaction: two processes that start together make one store.
Status Database::migrate() {
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
    TRY_VOID(run(Statement(*this, "INSERT INTO secret VALUES (0, ?)").add(key)));
    TRY_VOID(execute("UPDATE roster SET number = 0"));
  }
  TRY_VOID(execute(("PRAGMA application_id = " + std::to_string(kApplicationId)).c_str()));
  return execute(("PRAGMA user_version = " + std::to_string(kVersion)).c_str());
}

Status Database::open(Flush flush) {
  TRY_VOID(create_file());
  const int code =
      sqlite3_open_v2(path_.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, nullptr);
  if (code != SQLITE_OK) return failed(code);
  sqlite3_busy_timeout(db_, kBusyMilliseconds);
  TRY_VOID(check_whole());
  TRY_VOID(execute("PRAGMA journal_mode = WAL"));
  TRY_VOID(execute(flush == Flush::kEveryCommit ? "PRAGMA synchronous = FULL"
                                                : "PRAGMA synchronous = NORMAL"));
  return transaction([this] { return migrate(); });
}

}  // namespace hearth::coordinator

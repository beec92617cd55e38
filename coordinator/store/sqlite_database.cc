#include "coordinator/store/sqlite_database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/limits.h"
#include "coordinator/store/schema.h"

namespace hearth::coordinator {
namespace {

constexpr int kApplicationId = 0x48727468;          // "Hrth"
constexpr off_t kSmallestPage = 512;                // of any SQLite database
constexpr int kBusyMilliseconds = 5'000;            // for another process to end its transaction
constexpr std::uint64_t kRoomLeast = limits::kMiB;  // for the files beside a database, and its own

bool is_disk_full(const std::string& path) {
  struct statvfs disk = {};
  return ::statvfs(path.c_str(), &disk) == 0 &&
         std::uint64_t{disk.f_bavail} * disk.f_frsize < kRoomLeast;
}

Error damaged_file(const std::string& path, const std::string& what) {
  return Error::invalid("the store ", path, " is damaged (", what,
                        "); restore a copy of it, or move it away and create API keys and join "
                        "tokens again");
}

Error failed_call(const std::string& path, int code) {
  const int primary = code & 0xFF;
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
    return damaged_file(path, sqlite3_errstr(code));
  }
  if (primary == SQLITE_BUSY) {
    return Error::of(ErrorCode::kUnavailable, "the store ", path, " is locked by another process");
  }
  std::string message = "the store " + path + ": " + sqlite3_errstr(code);
  // On a full disk a file beside the database cannot grow, which is an I/O error to SQLite.
  const bool full = primary == SQLITE_FULL || (primary == SQLITE_IOERR && is_disk_full(path));
  if (full) message += "; its disk is full: free 1 MiB or more and try again";
  return {ErrorCode::kIo, message};
}

class SqliteRows final : public Rows {
 public:
  SqliteRows(const std::string& path, sqlite3* db) : path_(path), db_(db) {}
  ~SqliteRows() override { sqlite3_finalize(statement_); }
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;

  Status prepare(const std::string& sql, const std::vector<SqlValue>& values) {
    int code = sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement_, nullptr);
    int index = 0;
    for (const SqlValue& value : values) {
      ++index;
      if (code != SQLITE_OK) break;
      code = std::visit([&](const auto& one) { return bind(index, one); }, value);
    }
    if (code != SQLITE_OK) return failed_call(path_, code);
    return ok_status();
  }

  Result<bool> next() override {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) return failed_call(path_, code);
    return code == SQLITE_ROW;
  }
  std::int64_t changed() const override { return sqlite3_changes(db_); }
  std::int64_t number(int column) const override {
    return sqlite3_column_int64(statement_, column);
  }
  ByteSpan bytes(int column) const override {
    const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? ByteSpan() : ByteSpan(bytes, size);
  }

 private:
  int bind(int index, std::int64_t value) { return sqlite3_bind_int64(statement_, index, value); }
  int bind(int index, const std::string& text) {
    return sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_STATIC,
                               SQLITE_UTF8);
  }
  int bind(int index, const Bytes& bytes) {
    // A null pointer would bind NULL.
    const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
    return sqlite3_bind_blob64(statement_, index, data, bytes.size(), SQLITE_STATIC);
  }

  const std::string& path_;
  sqlite3* const db_;
  sqlite3_stmt* statement_ = nullptr;
};

// SQLite has this function since version 3.43.
void octet_length(sqlite3_context* call, int /*count*/, sqlite3_value** values) {
  sqlite3_result_int64(call, sqlite3_value_bytes(values[0]));
}

}  // namespace

SqliteDatabase::~SqliteDatabase() { sqlite3_close(db_); }

Error SqliteDatabase::damaged(const std::string& what) const { return damaged_file(path_, what); }

Result<std::unique_ptr<Rows>> SqliteDatabase::start(const std::string& sql,
                                                    const std::vector<SqlValue>& values) {
  auto rows = std::make_unique<SqliteRows>(path_, db_);
  TRY_VOID(rows->prepare(sql, values));
  return std::unique_ptr<Rows>(std::move(rows));
}

Status SqliteDatabase::execute(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return failed_call(path_, code);
  return ok_status();
}

Status SqliteDatabase::begin(Access access) {
  return execute(access == Access::kWrite ? "BEGIN IMMEDIATE" : "BEGIN");
}

// Deleted rows are overwritten (secure_delete), but older texts stay in the log until it begins
// anew. Another process that reads the file now may keep it from that; the next time will do.
void SqliteDatabase::scrub() {
  static_cast<void>(
      sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr));
}

// SQLite would make the file with the umask's rights, follow a link to anywhere, and take a file
// that was cut to almost nothing for a new one. A file that is there is only looked at: opening and
// closing it would end the locks that another store of this process has on it.
Status SqliteDatabase::create_file() const {
  constexpr int kNew = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  const int file = ::open(path_.c_str(), kNew, 0600);
  if (file >= 0) {
    ::close(file);
    return ok_status();
  }
  struct stat info {};
  if (errno != EEXIST || ::lstat(path_.c_str(), &info) != 0) {
    return Error::of(ErrorCode::kIo, "cannot open the store ", path_, ": ", std::strerror(errno));
  }
  REQUIRE(!S_ISLNK(info.st_mode), "the store ", path_, " is a link; name the folder itself");
  REQUIRE(S_ISREG(info.st_mode), "the store ", path_, " is not a regular file");
  REQUIRE((info.st_mode & 0077) == 0, "others may read or write the store ", path_,
          "; if you trust what is in it: chmod 600 ", path_);
  if (info.st_size > 0 && info.st_size < kSmallestPage) return damaged("it was cut short");
  return ok_status();
}

Result<std::int64_t> SqliteDatabase::pragma(const char* sql) {
  Statement statement(*this, sql);
  TRY(const bool row, statement.step());
  if (!row) return failed_call(path_, SQLITE_DONE);
  return statement.number(0);
}

Status SqliteDatabase::check_whole() {
  Statement statement(*this, "PRAGMA integrity_check(1)");
  TRY(const bool row, statement.step());
  if (!row || statement.text(0) != "ok") return damaged(row ? statement.text(0) : "no answer");
  return ok_status();
}

// Within one transaction: two processes that start together make one store.
Status SqliteDatabase::migrate() {
  TRY(const std::int64_t version, pragma("PRAGMA user_version"));
  TRY(const std::int64_t application, pragma("PRAGMA application_id"));
  TRY(const std::int64_t tables, pragma("SELECT count(*) FROM sqlite_schema"));
  REQUIRE(application == kApplicationId || (application == 0 && version == 0 && tables == 0), path_,
          " is an SQLite database of another program; move it away");
  TRY_VOID(upgrade_schema(*this, Dialect::kSqlite, version, path_));
  if (version == schema_version()) return ok_status();
  TRY_VOID(execute("PRAGMA application_id = " + std::to_string(kApplicationId)));
  return execute("PRAGMA user_version = " + std::to_string(schema_version()));
}

Status SqliteDatabase::connect(int flags) {
  const int code = sqlite3_open_v2(path_.c_str(), &db_, flags | SQLITE_OPEN_FULLMUTEX, nullptr);
  if (code != SQLITE_OK) return failed_call(path_, code);
  sqlite3_busy_timeout(db_, kBusyMilliseconds);
  const int made =
      sqlite3_create_function(db_, "octet_length", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                              octet_length, nullptr, nullptr);
  if (made != SQLITE_OK) return failed_call(path_, made);
  return ok_status();
}

Result<std::unique_ptr<Database>> SqliteDatabase::open(const std::string& path, Flush flush) {
  std::unique_ptr<SqliteDatabase> db(new SqliteDatabase(path));
  TRY_VOID(db->create_file());
  TRY_VOID(db->connect(SQLITE_OPEN_READWRITE));
  TRY_VOID(db->check_whole());
  TRY_VOID(db->execute("PRAGMA journal_mode = WAL"));
  TRY_VOID(db->execute("PRAGMA secure_delete = ON"));
  TRY_VOID(db->execute(flush == Flush::kEveryCommit ? "PRAGMA synchronous = FULL"
                                                    : "PRAGMA synchronous = NORMAL"));
  TRY_VOID(db->transaction([&] { return db->migrate(); }));
  return std::unique_ptr<Database>(std::move(db));
}

Result<std::unique_ptr<Database>> SqliteDatabase::open_in_memory() {
  std::unique_ptr<SqliteDatabase> db(new SqliteDatabase(":memory:"));
  TRY_VOID(db->connect(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY));
  TRY_VOID(db->transaction([&] { return db->migrate(); }));
  return std::unique_ptr<Database>(std::move(db));
}

}  // namespace hearth::coordinator

// The store's file as SQLite sees it: made, checked, brought up to date, and its statements. For
// the classes that keep rows in it (store.h, store_requests.h), each with a connection of its own.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::coordinator {

// One connection. Not thread-safe: its owner locks. Errors: see open_store().
class Database {
 public:
  enum class Flush : std::uint8_t {
    kEveryCommit,  // what was committed survives a power cut
    kRarely,       // only this process's end; nothing waits for the disk
  };

  explicit Database(std::string path) : path_(std::move(path)) {}
  ~Database() { sqlite3_close(db_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Status open(Flush flush);
  sqlite3* handle() { return db_; }

  Error failed(int code) const;
  Error damaged(const std::string& what) const;
  Status execute(const char* sql);

  // All that `work` does, or nothing where it fails.
  template <typename Work>
  Status transaction(Work work) {
    TRY_VOID(execute("BEGIN IMMEDIATE"));
    Status done = work();
    if (done.ok()) done = execute("COMMIT");
    if (!done.ok()) static_cast<void>(execute("ROLLBACK"));
    return done;
  }

 private:
  Status create_file() const;
  Result<std::int64_t> pragma(const char* sql);
  Status check_whole();
  Status migrate();

  const std::string path_;
  sqlite3* db_ = nullptr;
};

// One statement, prepared, run and finalised.
class Statement {
 public:
  Statement(Database& db, const char* sql) {
    code_ = sqlite3_prepare_v2(db.handle(), sql, -1, &statement_, nullptr);
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
  Statement& add(ByteSpan bytes) {
    // A null pointer would be a NULL.
    const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
    return bound(sqlite3_bind_blob64(statement_, ++index_, data, bytes.size(), SQLITE_TRANSIENT));
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
  // Until the next step.
  ByteSpan blob(int column) {
    const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? ByteSpan() : ByteSpan(bytes, size);
  }
  bool empty(int column) { return blob(column).empty(); }

 private:
  Statement& bound(int code) {
    if (code_ == SQLITE_OK) code_ = code;
    return *this;
  }
  sqlite3_stmt* statement_ = nullptr;
  int index_ = 0;
  int code_ = SQLITE_OK;
};

}  // namespace hearth::coordinator

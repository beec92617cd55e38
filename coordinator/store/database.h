// The store's SQLite file and its statements: creates, checks and upgrades the file. For the
// classes that keep rows in it (store.h, requests.h), each with its own connection.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::coordinator {

class Statement;

// One connection. Not thread-safe: its owner locks. Errors: see open_store().
class Database {
 public:
  enum class Flush : std::uint8_t {
    kEveryCommit,  // commits survive a power cut
    kRarely,       // commits survive the end of this process; no call waits for the disk
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
  // Steps to the next row; false at the end.
  Result<bool> step(Statement& statement);
  // Runs a statement without rows.
  Status run(Statement& statement);

  // Runs `work` as one transaction, which a failure rolls back.
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

  // Binds the next parameters: numbers and enumerations, texts, lists of texts without a comma,
  // bytes, hashes and keys (no key: no bytes).
  template <typename... Values>
  Statement& add(const Values&... values) {
    (keep(bind(++index_, values)), ...);
    return *this;
  }

  // SQLITE_ROW, SQLITE_DONE, or an error code.
  int step() { return code_ != SQLITE_OK ? code_ : sqlite3_step(statement_); }

  // Reads the row's columns in their order. False when a value is one that no version writes.
  template <typename... Values>
  bool read(Values&... values) {
    int column = 0;
    return (get(column++, values) && ...);
  }
  std::int64_t number(int column) { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? std::string() : std::string(bytes, size);
  }
  // Valid until the next step.
  ByteSpan blob(int column) {
    const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return bytes == nullptr ? ByteSpan() : ByteSpan(bytes, size);
  }

  // The same for one column.
  template <typename T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) bool get(int column, T& out) {
    out = static_cast<T>(number(column));
    return !std::is_enum_v<T> || static_cast<std::int64_t>(out) == number(column);
  }
  bool get(int column, std::string& out) {
    out = text(column);
    return true;
  }
  bool get(int column, std::vector<std::string>& out) {
    const std::string words = text(column);
    for (std::size_t at = 0; at < words.size();) {
      const std::size_t end = std::min(words.find(',', at), words.size());
      out.push_back(words.substr(at, end - at));
      at = end + 1;
    }
    return true;
  }
  bool get(int column, Hash256& out) {
    const ByteSpan bytes = blob(column);
    if (bytes.size() != out.bytes.size()) return false;
    std::copy(bytes.begin(), bytes.end(), out.bytes.begin());
    return true;
  }
  bool get(int column, PublicKey& out) {
    const auto key = PublicKey::parse(blob(column));
    if (key.ok()) out = *key;
    return key.ok();
  }
  bool get(int column, std::optional<PublicKey>& out) {
    return blob(column).empty() || get(column, out.emplace());
  }

 private:
  void keep(int code) {
    if (code_ == SQLITE_OK) code_ = code;
  }

  template <typename T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) int bind(int index, T value) {
    return sqlite3_bind_int64(statement_, index, static_cast<std::int64_t>(value));
  }
  int bind(int index, std::string_view text) {
    return sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_TRANSIENT,
                               SQLITE_UTF8);
  }
  int bind(int index, const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
    return bind(index, text);
  }
  int bind(int index, ByteSpan bytes) {
    // A null pointer would bind NULL.
    const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
    return sqlite3_bind_blob64(statement_, index, data, bytes.size(), SQLITE_TRANSIENT);
  }
  int bind(int index, const Hash256& hash) { return bind(index, ByteSpan(hash.bytes)); }
  int bind(int index, const PublicKey& key) { return bind(index, key.bytes()); }
  int bind(int index, const std::optional<PublicKey>& key) {
    return bind(index, key ? key->bytes() : ByteSpan());
  }

  sqlite3_stmt* statement_ = nullptr;
  int index_ = 0;
  int code_ = SQLITE_OK;
};

}  // namespace hearth::coordinator

// Database: one connection to SQLite or PostgreSQL, and its statements. Both get the same SQL:
// parameters are $1, $2, ... and first occur in this order, rows have the column rowid, and only
// INSERT ... ON CONFLICT replaces a row. The tables are in schema.h.
//
// Not thread-safe: its owner locks. Errors: see open_store().
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"

namespace hearth::coordinator {

// A value of a parameter.
using SqlValue = std::variant<std::int64_t, std::string, Bytes>;

// The rows of a running statement. Columns count from 0.
class Rows {
 public:
  virtual ~Rows() = default;
  // Moves to the next row, and first to the first one; false at the end.
  virtual Result<bool> next() = 0;
  // Rows that the statement has inserted, updated or deleted, once next() has returned false.
  virtual std::int64_t changed() const = 0;
  virtual std::int64_t number(int column) const = 0;
  // Texts and bytes; valid until next().
  virtual ByteSpan bytes(int column) const = 0;
};

class Database {
 public:
  enum class Flush : std::uint8_t {
    kEveryCommit,  // commits survive a power cut
    kRarely,       // commits survive the end of this process; no call waits for the disk
  };
  enum class Access : std::uint8_t { kRead, kWrite };

  Database() = default;
  virtual ~Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // `values` stay as they are until the rows are destroyed.
  virtual Result<std::unique_ptr<Rows>> start(const std::string& sql,
                                              const std::vector<SqlValue>& values) = 0;
  // Runs statements without parameters and rows.
  virtual Status execute(const std::string& sql) = 0;
  // What transaction() begins: one at a time for writing, or rows of one moment for reading.
  virtual Status begin(Access access) = 0;
  // Connects again where the connection is lost; kUnavailable where that failed shortly before.
  virtual Status make_ready() { return ok_status(); }
  // Overwrites what deleted rows have left, where the database can.
  virtual void scrub() {}
  // Of a store whose contents no version of hearth has written.
  virtual Error damaged(const std::string& what) const = 0;

  // Runs `work` as one transaction, which a failure rolls back.
  template <typename Work>
  Status transaction(Work work, Access access = Access::kWrite) {
    TRY_VOID(begin(access));
    Status done = work();
    if (done.ok()) done = execute("COMMIT");
    if (!done.ok()) static_cast<void>(execute("ROLLBACK"));
    return done;
  }
};

// One statement, run once.
class Statement {
 public:
  Statement(Database& db, std::string sql) : db_(db), sql_(std::move(sql)) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Adds the next parameters: numbers and enumerations, texts, lists of texts without a comma,
  // bytes, hashes and keys (no key: no bytes).
  template <typename... Values>
  Statement& add(const Values&... values) {
    (bind(values), ...);
    return *this;
  }

  // Runs the statement, and moves to the next row; false at the end.
  Result<bool> step() {
    if (rows_ == nullptr) {
      TRY(rows_, db_.start(sql_, values_));
    }
    return rows_->next();
  }
  // Runs a statement without rows. Whether it has changed any row.
  Result<bool> run() {
    TRY_VOID(step());
    return rows_->changed() > 0;
  }

  // Reads the row's columns in their order. False when a value is one that no version writes.
  template <typename... Values>
  bool read(Values&... values) {
    int column = 0;
    return (get(column++, values) && ...);
  }
  std::int64_t number(int column) const { return rows_->number(column); }
  std::string text(int column) const { return std::string(as_text(rows_->bytes(column))); }
  // Valid until the next step.
  ByteSpan blob(int column) const { return rows_->bytes(column); }

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
  template <typename T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void bind(T value) {
    values_.emplace_back(static_cast<std::int64_t>(value));
  }
  void bind(std::string_view text) { values_.emplace_back(std::string(text)); }
  void bind(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
    values_.emplace_back(std::move(text));
  }
  void bind(ByteSpan bytes) { values_.emplace_back(Bytes(bytes.begin(), bytes.end())); }
  void bind(const Hash256& hash) { bind(ByteSpan(hash.bytes)); }
  void bind(const PublicKey& key) { bind(key.bytes()); }
  void bind(const std::optional<PublicKey>& key) { bind(key ? key->bytes() : ByteSpan()); }

  Database& db_;
  const std::string sql_;
  std::vector<SqlValue> values_;
  std::unique_ptr<Rows> rows_;  // after the first step; before the values, which it uses
};

}  // namespace hearth::coordinator

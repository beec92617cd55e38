// The store in a PostgreSQL database, in the schema "hearth": connects, checks and upgrades it, and
// lets only one coordinator have it.
//
// No call waits longer than its options say. What a lost connection or a late answer leaves open
// ends with kUnavailable: a COMMIT may then have been done or not.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "coordinator/store/database.h"
#include "coordinator/store/place.h"

struct pg_conn;
struct pg_result;

namespace hearth::coordinator {

// Of a command, which a person waits for; the journal has its own thread.
inline constexpr Duration kCommandWait = std::chrono::seconds(10);

struct PostgresOptions {
  StoreUrl url;
  Database::Flush flush = Database::Flush::kEveryCommit;
  Duration wait{0};         // for the answer to one statement
  bool also_moved = false;  // also a store that hearth store migrate has emptied
};

class PostgresDatabase final : public Database {
 public:
  static Result<std::unique_ptr<PostgresDatabase>> open(const PostgresOptions& options);
  ~PostgresDatabase() override;

  Result<std::unique_ptr<Rows>> start(const std::string& sql,
                                      const std::vector<SqlValue>& values) override;
  Status execute(const std::string& sql) override;
  Status begin(Access access) override;
  Status make_ready() override;
  Error damaged(const std::string& what) const override;

  // The row that every writing transaction changes.
  struct Head {
    std::int64_t version = 0;
    std::int64_t changes = 0;  // transactions that have written, ever
    std::int64_t epoch = 0;    // coordinators that have held the store, ever
    std::string holder;        // the last of them
    std::string moved;         // where hearth store migrate has brought the rows; empty: nowhere
  };
  Result<Head> head();
  Status mark_moved(const std::string& to);

  // A coordinator holds the store for as long as one connection lasts, by an advisory lock, and its
  // epoch fences what it writes: a transaction of an older epoch changes nothing and is kRefused.
  struct Lease {
    std::int64_t epoch = 0;  // 0: never held
    int backend = 0;         // the server's process for the connection that held it
  };
  enum class Held : std::uint8_t {
    kYes,
    kBusy,     // by another coordinator; or by an earlier connection of this one, which is ended
    kDeposed,  // another coordinator has held it since `last`
  };
  // `holder`: of the caller, for the errors of others. `last`: what the caller held before.
  Result<Held> hold(const std::string& holder, const Lease& last);
  const Lease& lease() const { return lease_; }

  // It can be read when rows may have changed, or the connection has ended. -1: not connected.
  int socket() const;
  bool lost() const { return connection_ == nullptr; }
  const std::string& shown() const { return options_.url.shown; }

 private:
  using TimeLimit = std::chrono::steady_clock::time_point;
  struct FreeResult {
    void operator()(pg_result* result) const;
  };
  using ResultPointer = std::unique_ptr<pg_result, FreeResult>;
  friend class PostgresRows;

  explicit PostgresDatabase(PostgresOptions options) : options_(std::move(options)) {}

  Status connect();
  Status dial();
  Status set_time_limit(Duration wait);
  Status open_schema();
  Status settle_schema();
  // The last result of what was sent, after all of them. `rows`: that the one before changed.
  Result<ResultPointer> finish(std::int64_t* rows = nullptr);
  Status wait_until(short events, TimeLimit end);
  Error unavailable(const std::string& why) const;
  Error lose(const std::string& why);
  Error failed(const pg_result* result);
  Result<std::int64_t> number(const std::string& sql);
  Status end_backend(int backend);

  const PostgresOptions options_;
  pg_conn* connection_ = nullptr;
  Duration wait_{0};  // for the answer to one statement
  Lease lease_;
  std::optional<TimeLimit> again_;  // not before, after a failure to connect
  Duration pause_{0};
};

}  // namespace hearth::coordinator

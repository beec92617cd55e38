// The store in a PostgreSQL database, in the schema "hearth": connects, checks and upgrades it, and
// fences what a coordinator writes.
//
// No call waits longer than its options say. What a lost connection or a late answer leaves open
// ends with kUnavailable: a COMMIT may then have been done or not.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "coordinator/store/database.h"
#include "coordinator/store/lease.h"
#include "coordinator/store/place.h"

struct pg_conn;
struct pg_result;

namespace hearth::coordinator {

// Of a command, which a person waits for; the journal has its own thread.
inline constexpr Duration kCommandWait = std::chrono::seconds(10);
// Of the leader's journal and ledger, which have their own threads. A leader that stands still in a
// transaction keeps another one from the lease for three quarters of it.
inline constexpr Duration kFencedWait = std::chrono::seconds(3);

struct PostgresOptions {
  StoreUrl url;
  Database::Flush flush = Database::Flush::kEveryCommit;
  Duration wait{0};         // for the answer to one statement
  bool also_moved = false;  // also a store that hearth store migrate has emptied
  // The lease (lease.h) under which this connection writes: once there is another one, a
  // transaction for writing changes nothing and is kRefused. None: a command's, which needs none.
  LeaseTerm term = {};
  // Whether its transactions count in Head::changes. Kept requests and the ledger do not: they have
  // one writer, and no copy in memory.
  bool counts = true;
  // For a connection, and at least for each answer while it is made.
  Duration dial = std::chrono::seconds(5);
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
    std::string moved;         // where hearth store migrate has brought the rows; empty: nowhere
  };
  Result<Head> head();
  Status mark_moved(const std::string& to);

  // From now on, the socket can be read after a notice of that channel.
  Status listen(const std::string& channel);
  static constexpr const char* kRowsChannel = "hearth";
  static constexpr const char* kLeaseChannel = "hearth_lease";

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
  bool is_ended() const { return options_.term.ended != nullptr && options_.term.ended->load(); }
  Error unavailable(const std::string& why) const;
  Error lose(const std::string& why);
  Error failed(const pg_result* result);
  Result<std::int64_t> number(const std::string& sql);

  const PostgresOptions options_;
  pg_conn* connection_ = nullptr;
  Duration wait_{0};                // for the answer to one statement
  std::optional<TimeLimit> again_;  // not before, after a failure to connect
  Duration pause_{0};
};

}  // namespace hearth::coordinator

// Brings a store from SQLite to PostgreSQL and back.
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <thread>

#include "coordinator/store/place.h"
#include "coordinator/store/postgres_database.h"
#include "coordinator/store/postgres_lease.h"
#include "coordinator/store/requests.h"
#include "coordinator/store/sqlite_database.h"
#include "coordinator/store/store.h"
#include "coordinator/store/store_rows.h"
#include "coordinator/store/stored_log.h"
#include "coordinator/store/stored_manifest.h"

namespace hearth::coordinator {
namespace {

using Flush = Database::Flush;

// As a coordinator, so that none leads meanwhile; given back at the end.
constexpr auto kMigratorLease = std::chrono::seconds(60);
constexpr auto kMigratorRenews = std::chrono::seconds(10);

struct Contents {
  StoreRows rows;
  std::vector<RequestRow> requests;  // the newest first
};

Result<Contents> read_contents(Database& db, RequestStore& requests) {
  Contents out;
  TRY_VOID(db.transaction(
      [&]() -> Status {
        TRY(out.rows, read_store(db));
        return ok_status();
      },
      Database::Access::kRead));
  TRY(RequestStore::Loaded loaded, requests.load());
  out.requests = std::move(loaded.rows);
  return out;
}

Status write_contents(Database& db, RequestStore& requests, const Contents& contents) {
  TRY_VOID(db.transaction([&] { return write_store(db, contents.rows); }));
  TRY_VOID(requests.clear());
  for (auto row = contents.requests.rbegin(); row != contents.requests.rend(); ++row) {
    TRY_VOID(requests.write({*row}));
  }
  return ok_status();
}

// What was written, read again: the last step makes it the only copy in use.
Status check_contents(Database& db, RequestStore& requests, const Contents& wanted) {
  TRY(const Contents now, read_contents(db, requests));
  const bool same = now.rows.secret == wanted.rows.secret &&
                    now.rows.roster == wanted.rows.roster &&
                    now.rows.tokens.size() == wanted.rows.tokens.size() &&
                    now.rows.nodes.size() == wanted.rows.nodes.size() &&
                    now.rows.keys.size() == wanted.rows.keys.size() &&
                    now.rows.waiting.size() == wanted.rows.waiting.size() &&
                    now.rows.machines.size() == wanted.rows.machines.size() &&
                    now.requests.size() == wanted.requests.size();
  if (same) return ok_status();
  return Error{ErrorCode::kIo,
               "the rows read back differ from those written; nothing was switched"};
}

Migrated report(const Contents& contents) {
  Migrated out;
  out.nodes = contents.rows.nodes.size();
  out.keys = contents.rows.keys.size();
  out.tokens = contents.rows.tokens.size();
  out.requests = contents.requests.size();
  return out;
}

// The lease of a database, and a connection that writes under it.
class HeldDatabase {
 public:
  static Result<std::unique_ptr<HeldDatabase>> open(const StoreUrl& url, bool also_moved) {
    LeaseSelf self = lease_self("", "", "");
    self.peer.name = "hearth store migrate on " + self.peer.name;
    std::unique_ptr<HeldDatabase> held(new HeldDatabase(url, self, also_moved));
    TRY(const LeaseView before, held->lease_.ask({}));
    TRY(const LeaseView now,
        held->lease_.ask({LeaseAsk::kTake, before.epoch, before.renewed, before.holder}));
    if (now.holder != self.id) {
      return Error::of(ErrorCode::kRefused, "the store ", url.shown,
                       " is used by the coordinator on ", now.leader.name,
                       "; stop that one and all standbys first");
    }
    held->term_ = {now.epoch, self.id};
    PostgresOptions options{url, Flush::kEveryCommit, kCommandWait, also_moved, held->term_};
    TRY(held->db_, PostgresDatabase::open(options));
    held->renewer_ =
        std::jthread([raw = held.get()](const std::stop_token& stop) { raw->renew(stop); });
    return held;
  }
  ~HeldDatabase() {
    renewer_ = {};
    static_cast<void>(lease_.ask({LeaseAsk::kRelease, term_.epoch}));
  }
  HeldDatabase(const HeldDatabase&) = delete;
  HeldDatabase& operator=(const HeldDatabase&) = delete;
  PostgresDatabase* database() const { return db_.get(); }
  const LeaseTerm& term() const { return term_; }

 private:
  HeldDatabase(const StoreUrl& url, LeaseSelf self, bool also_moved)
      : lease_(url, std::move(self), kMigratorLease, also_moved) {}

  // A renewal that is too late shows at the next transaction.
  void renew(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wakes;
    std::unique_lock lock(mutex);
    for (;;) {
      wakes.wait_for(lock, stop, kMigratorRenews, [] { return false; });
      if (stop.stop_requested()) return;
      static_cast<void>(lease_.ask({LeaseAsk::kRenew, term_.epoch}));
    }
  }

  PostgresLease lease_;  // of renewer_, while it runs
  LeaseTerm term_;
  std::unique_ptr<PostgresDatabase> db_;
  std::jthread renewer_;
};

Result<std::shared_ptr<RequestStore>> requests_in(const StoreUrl& url, const LeaseTerm& term) {
  PostgresOptions options{url, Flush::kRarely, kCommandWait, true, term, false};
  TRY(auto db, PostgresDatabase::open(options));
  return request_store(std::move(db));
}

Status rename_file(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return ok_status();
  return Error::of(ErrorCode::kIo, "cannot rename ", from, ": ", std::strerror(errno));
}

Result<Migrated> to_postgres(const std::string& folder, const StoreUrl& url) {
  const std::string file = store_file(folder);
  if (!std::filesystem::exists(file)) {
    return Error::of(ErrorCode::kNotFound, "the folder ", folder, " has no store to bring to ",
                     url.shown, "; create a cluster: hearth init NAME");
  }
  Contents contents;
  {
    TRY(const auto from, SqliteDatabase::open(file, Flush::kEveryCommit));
    TRY(auto second, SqliteDatabase::open(file, Flush::kRarely));
    TRY(contents, read_contents(*from, *request_store(std::move(second))));
  }
  TRY(const auto held, HeldDatabase::open(url, true));
  PostgresDatabase* const to = held->database();
  TRY(const auto requests, requests_in(url, held->term()));
  TRY(const auto head, to->head());
  TRY(const StoreRows there, read_store(*to));
  REQUIRE(!head.moved.empty() || is_empty(there), "the store ", url.shown, " holds ",
          there.nodes.size(), " nodes and ", there.keys.size(),
          " API keys already; choose an empty database");
  // The log comes first: a coordinator that finds rows and no log would begin a second history.
  TRY_VOID(to->mark_moved(head.moved));
  TRY_VOID(import_log_of_folder(*to, folder));
  TRY_VOID(import_manifest_of_folder(*to, folder));
  TRY_VOID(write_contents(*to, *requests, contents));
  TRY_VOID(check_contents(*to, *requests, contents));
  TRY_VOID(to->mark_moved(""));
  TRY_VOID(write_store_url(folder, url));
  TRY_VOID(retire_log_on_disk(folder));
  Migrated out = report(contents);
  out.to = url.shown;
  out.left = file + ".old";
  TRY_VOID(rename_file(file, out.left));
  return out;
}

Result<Migrated> to_sqlite(const std::string& folder, const StoreUrl& url) {
  const std::string file = store_file(folder);
  const std::string fresh = file + ".new";
  TRY(const auto held, HeldDatabase::open(url, true));
  PostgresDatabase* const from = held->database();
  TRY(const auto head, from->head());
  const bool was_moved = head.moved == file && std::filesystem::exists(file);
  if (was_moved) {  // it was interrupted before the switch
    TRY_VOID(write_store_url(folder, {}));
    return Migrated{.to = file, .left = url.shown};
  }
  REQUIRE(head.moved.empty(), "the rows of the store ", url.shown, " were moved to ", head.moved);
  REQUIRE(!std::filesystem::exists(file), file,
          " exists already, from before the rows were in PostgreSQL; move it away");
  for (const char* side : {"", "-wal", "-shm"}) std::filesystem::remove(fresh + side);
  TRY(const auto from_requests, requests_in(url, held->term()));
  TRY(const Contents contents, read_contents(*from, *from_requests));
  {
    TRY(const auto to, SqliteDatabase::open(fresh, Flush::kEveryCommit));
    TRY(auto second, SqliteDatabase::open(fresh, Flush::kRarely));
    const auto requests = request_store(std::move(second));
    TRY_VOID(write_contents(*to, *requests, contents));
    TRY_VOID(check_contents(*to, *requests, contents));
  }
  TRY_VOID(export_stored_log(*from, folder));
  TRY_VOID(export_stored_manifest(*from, folder));
  TRY_VOID(rename_file(fresh, file));
  // Before the switch: where another coordinator has taken the lease meanwhile, nothing is
  // switched.
  if (const Status marked = from->mark_moved(file); !marked.ok()) {
    if (marked.error().code == ErrorCode::kRefused) TRY_VOID(rename_file(file, fresh));
    return marked.error();
  }
  TRY_VOID(write_store_url(folder, {}));
  Migrated out = report(contents);
  out.to = file;
  out.left = url.shown;
  return out;
}

}  // namespace

Result<Migrated> migrate_store(const std::string& folder, const std::string& text) {
  TRY(const auto now, read_store_url(folder));
  if (text.empty()) {
    REQUIRE(now.has_value(), "the store of this folder is ", store_file(folder), " already");
    return to_sqlite(folder, *now);
  }
  TRY(const StoreUrl url, parse_store_url(text));
  REQUIRE(!now, "the store of this folder is ", now ? now->shown : "",
          " already; first bring it back: hearth store migrate --to sqlite");
  return to_postgres(folder, url);
}

}  // namespace hearth::coordinator

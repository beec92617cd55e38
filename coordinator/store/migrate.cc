// Brings a store from SQLite to PostgreSQL and back.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "coordinator/store/place.h"
#include "coordinator/store/postgres_database.h"
#include "coordinator/store/requests.h"
#include "coordinator/store/sqlite_database.h"
#include "coordinator/store/store.h"
#include "coordinator/store/store_rows.h"

namespace hearth::coordinator {
namespace {

using Flush = Database::Flush;

constexpr const char* kMigrator = "hearth store migrate";

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

Result<std::unique_ptr<PostgresDatabase>> hold_database(const StoreUrl& url, bool also_moved) {
  TRY(auto db, PostgresDatabase::open({url, Flush::kEveryCommit, kCommandWait, also_moved}));
  TRY(const auto held, db->hold(kMigrator, {}));
  if (held == PostgresDatabase::Held::kYes) return db;
  TRY(const auto head, db->head());
  return Error::of(ErrorCode::kRefused, "the store ", url.shown, " is used by the coordinator on ",
                   head.holder, "; stop that one first");
}

Result<std::shared_ptr<RequestStore>> requests_in(const StoreUrl& url) {
  TRY(auto db, PostgresDatabase::open({url, Flush::kRarely, kCommandWait, true}));
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
  TRY(const auto to, hold_database(url, true));
  TRY(const auto requests, requests_in(url));
  TRY(const auto head, to->head());
  TRY(const StoreRows there, read_store(*to));
  REQUIRE(!head.moved.empty() || is_empty(there), "the store ", url.shown, " holds ",
          there.nodes.size(), " nodes and ", there.keys.size(),
          " API keys already; choose an empty database");
  TRY_VOID(write_contents(*to, *requests, contents));
  TRY_VOID(check_contents(*to, *requests, contents));
  TRY_VOID(to->mark_moved(""));
  TRY_VOID(write_store_url(folder, url));
  Migrated out = report(contents);
  out.to = url.shown;
  out.left = file + ".old";
  TRY_VOID(rename_file(file, out.left));
  return out;
}

Result<Migrated> to_sqlite(const std::string& folder, const StoreUrl& url) {
  const std::string file = store_file(folder);
  const std::string fresh = file + ".new";
  REQUIRE(!std::filesystem::exists(file), file,
          " exists already, from before the rows were in PostgreSQL; move it away");
  for (const char* side : {"", "-wal", "-shm"}) std::filesystem::remove(fresh + side);
  TRY(const auto from, hold_database(url, false));
  TRY(const auto from_requests, requests_in(url));
  TRY(const Contents contents, read_contents(*from, *from_requests));
  {
    TRY(const auto to, SqliteDatabase::open(fresh, Flush::kEveryCommit));
    TRY(auto second, SqliteDatabase::open(fresh, Flush::kRarely));
    const auto requests = request_store(std::move(second));
    TRY_VOID(write_contents(*to, *requests, contents));
    TRY_VOID(check_contents(*to, *requests, contents));
  }
  TRY_VOID(rename_file(fresh, file));
  TRY_VOID(write_store_url(folder, {}));
  TRY_VOID(from->mark_moved(file));
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

#include "coordinator/store/requests.h"

#include "base/limits.h"
#include "base/thread_annotations.h"
#include "coordinator/store/database.h"
#include "coordinator/store/place.h"

namespace hearth::coordinator {
namespace {

constexpr std::size_t kOwnerBytes = 256;

class SqlRequestStore final : public RequestStore {
 public:
  explicit SqlRequestStore(std::unique_ptr<Database> db) : db_(std::move(db)) {}

  Status write(const std::vector<RequestChange>& changes) override {
    const MutexLock lock(mutex_);
    TRY_VOID(db_->make_ready());
    bool removes = false;
    TRY_VOID(db_->transaction([&]() -> Status {
      for (const RequestChange& change : changes) {
        TRY_VOID(std::visit([this](const auto& one) { return apply(one); }, change));
        removes = removes || std::holds_alternative<RequestRemoval>(change);
      }
      return ok_status();
    }));
    return removes ? clear_log() : ok_status();
  }

  Result<Loaded> load() override {
    const MutexLock lock(mutex_);
    TRY_VOID(db_->make_ready());
    Loaded loaded;
    std::vector<std::int64_t> dropped;
    TRY_VOID(read_rows(loaded, dropped));
    loaded.dropped = dropped.size();
    if (dropped.empty()) return loaded;
    TRY_VOID(db_->transaction([&]() -> Status {
      for (const std::int64_t id : dropped) TRY_VOID(remove(id));
      return ok_status();
    }));
    TRY_VOID(clear_log());
    return loaded;
  }

  Status clear() override {
    const MutexLock lock(mutex_);
    TRY_VOID(db_->make_ready());
    TRY_VOID(db_->transaction([&]() -> Status {
      TRY_VOID(db_->execute("DELETE FROM request_tokens"));
      return db_->execute("DELETE FROM requests");
    }));
    return clear_log();
  }

 private:
  template <typename... Values>
  Status run(const char* sql, const Values&... values) {
    TRY_VOID(Statement(*db_, sql).add(values...).run());
    return ok_status();
  }

  Status remove(std::int64_t id) {
    TRY_VOID(run("DELETE FROM request_tokens WHERE request = $1", id));
    return run("DELETE FROM requests WHERE id = $1", id);
  }

  Status apply(const RequestRemoval& removal) {
    TRY_VOID(
        run("DELETE FROM request_tokens WHERE request = (SELECT id FROM requests WHERE name = $1)",
            removal.name));
    return run("DELETE FROM requests WHERE name = $1", removal.name);
  }
  Status apply(const RequestRow& row) {
    TRY_VOID(apply(RequestRemoval{row.name}));
    TRY_VOID(
        run("INSERT INTO requests (name, digest, owner, ended, request) VALUES ($1, $2, $3, $4, "
            "$5)",
            row.name, row.digest, row.owner, row.ended, ByteSpan(row.request)));
    for (const Bytes& tokens : row.tokens) TRY_VOID(apply(RequestTokens{row.name, tokens}));
    return ok_status();
  }
  Status apply(const RequestTokens& tokens) {
    return run(
        "INSERT INTO request_tokens (request, tokens) SELECT id, $1 FROM requests WHERE name = $2",
        ByteSpan(tokens.tokens), tokens.name);
  }
  Status apply(const RequestEnd& end) {
    return run("UPDATE requests SET ended = $1 WHERE name = $2", end.ended, end.name);
  }

  Status clear_log() {
    Statement first(*db_, "SELECT 1 FROM requests LIMIT 1");
    TRY(const bool kept, first.step());
    if (!kept) db_->scrub();
    return ok_status();
  }

  // Sizes are asked for before a byte is read: the writer of the database chose them.
  Status read_rows(Loaded& loaded, std::vector<std::int64_t>& dropped) {
    Statement row(*db_,
                  "SELECT id, octet_length(name), octet_length(digest), octet_length(owner), "
                  "octet_length(request) FROM requests ORDER BY id DESC");
    std::size_t room = limits::kKeptBytes;
    while (true) {
      TRY(const bool there, row.step());
      if (!there) return ok_status();
      const std::int64_t id = row.number(0);
      const bool sizes = row.number(1) == 32 && row.number(2) == 32 &&
                         row.number(3) <= static_cast<std::int64_t>(kOwnerBytes) &&
                         row.number(4) <= static_cast<std::int64_t>(limits::kKeptRequestBytes);
      if (!sizes || loaded.rows.size() >= limits::kKeptRequests ||
          static_cast<std::size_t>(row.number(4)) > room) {
        dropped.push_back(id);
        continue;
      }
      RequestRow out;
      TRY(const bool whole, read_row(id, room, out));
      if (whole) {
        loaded.rows.push_back(std::move(out));
      } else {
        dropped.push_back(id);
      }
    }
  }

  // False: it is not whole, or larger than `room`.
  Result<bool> read_row(std::int64_t id, std::size_t& room, RequestRow& out) {
    Statement row(*db_, "SELECT name, digest, owner, ended, request FROM requests WHERE id = $1");
    TRY(const bool there, row.add(id).step());
    if (!there || !row.read(out.name, out.digest, out.owner, out.ended)) return false;
    const ByteSpan request = row.blob(4);
    if (request.size() > room) return false;
    out.request.assign(request.begin(), request.end());
    room -= out.request.size();
    return read_tokens(id, room, out.tokens);
  }

  // False when there are more than `room`, or one of a size that no version writes.
  Result<bool> read_tokens(std::int64_t id, std::size_t& room, std::vector<Bytes>& out) {
    Statement sizes(*db_,
                    "SELECT count(*), coalesce(min(octet_length(tokens)), 0), "
                    "coalesce(max(octet_length(tokens)), 0), coalesce(sum(octet_length(tokens)), "
                    "0) FROM request_tokens WHERE request = $1");
    TRY(const bool counted, sizes.add(id).step());
    if (!counted) return false;
    if (sizes.number(0) == 0) return true;
    if (sizes.number(1) == 0 ||
        sizes.number(2) > static_cast<std::int64_t>(limits::kKeptTokensBytes) ||
        static_cast<std::size_t>(sizes.number(3)) > room) {
      return false;
    }
    Statement row(*db_, "SELECT tokens FROM request_tokens WHERE request = $1 ORDER BY rowid");
    row.add(id);
    while (true) {
      TRY(const bool there, row.step());
      if (!there) return true;
      const ByteSpan tokens = row.blob(0);
      if (tokens.size() > room) return false;
      out.emplace_back(tokens.begin(), tokens.end());
      room -= tokens.size();
    }
  }

  Mutex mutex_;
  const std::unique_ptr<Database> db_;  // used with the mutex held
};

}  // namespace

std::shared_ptr<RequestStore> request_store(std::unique_ptr<Database> db) {
  return std::make_shared<SqlRequestStore>(std::move(db));
}

Result<std::shared_ptr<RequestStore>> open_request_store(const std::string& folder,
                                                         const LeaseTerm& term) {
  TRY(auto db, open_database(folder, Database::Flush::kRarely, term));
  return request_store(std::move(db));
}

}  // namespace hearth::coordinator

#include "coordinator/store/requests.h"

#include <mutex>

#include "base/limits.h"
#include "coordinator/store/database.h"

namespace hearth::coordinator {
namespace {

constexpr std::size_t kOwnerBytes = 256;

class SqliteRequestStore final : public RequestStore {
 public:
  explicit SqliteRequestStore(std::string path) : db_(std::move(path)) {}

  Status open() {
    TRY_VOID(db_.open(Database::Flush::kRarely));
    return db_.execute("PRAGMA secure_delete = ON");
  }

  Status write(const std::vector<RequestChange>& changes) override {
    const std::lock_guard lock(mutex_);
    bool removes = false;
    TRY_VOID(db_.transaction([&]() -> Status {
      for (const RequestChange& change : changes) {
        TRY_VOID(std::visit([this](const auto& one) { return apply(one); }, change));
        removes = removes || std::holds_alternative<RequestRemoval>(change);
      }
      return ok_status();
    }));
    return removes ? clear_log() : ok_status();
  }

  Result<Loaded> load() override {
    const std::lock_guard lock(mutex_);
    Loaded loaded;
    std::vector<std::int64_t> dropped;
    TRY_VOID(read_rows(loaded, dropped));
    loaded.dropped = dropped.size();
    if (dropped.empty()) return loaded;
    TRY_VOID(db_.transaction([&]() -> Status {
      for (const std::int64_t id : dropped) TRY_VOID(remove(id));
      return ok_status();
    }));
    TRY_VOID(clear_log());
    return loaded;
  }

  Status clear() override {
    const std::lock_guard lock(mutex_);
    TRY_VOID(db_.execute("DELETE FROM request_tokens"));
    TRY_VOID(db_.execute("DELETE FROM requests"));
    return clear_log();
  }

 private:
  Status remove(std::int64_t id) {
    TRY_VOID(db_.run(Statement(db_, "DELETE FROM request_tokens WHERE request = ?").add(id)));
    return db_.run(Statement(db_, "DELETE FROM requests WHERE id = ?").add(id));
  }

  Status apply(const RequestRemoval& removal) {
    TRY_VOID(
        db_.run(Statement(db_,
                          "DELETE FROM request_tokens WHERE request = (SELECT id FROM requests "
                          "WHERE name = ?)")
                    .add(removal.name)));
    return db_.run(Statement(db_, "DELETE FROM requests WHERE name = ?").add(removal.name));
  }
  Status apply(const RequestRow& row) {
    TRY_VOID(apply(RequestRemoval{row.name}));
    Statement insert(db_,
                     "INSERT INTO requests (name, digest, owner, ended, request) VALUES "
                     "(?, ?, ?, ?, ?)");
    insert.add(row.name, row.digest, row.owner, row.ended, ByteSpan(row.request));
    TRY_VOID(db_.run(insert));
    for (const Bytes& tokens : row.tokens) TRY_VOID(apply(RequestTokens{row.name, tokens}));
    return ok_status();
  }
  Status apply(const RequestTokens& tokens) {
    return db_.run(
        Statement(db_, "INSERT INTO request_tokens SELECT id, ? FROM requests WHERE name = ?")
            .add(ByteSpan(tokens.tokens), tokens.name));
  }
  Status apply(const RequestEnd& end) {
    return db_.run(
        Statement(db_, "UPDATE requests SET ended = ? WHERE name = ?").add(end.ended, end.name));
  }

  // Older texts stay in the log until it begins anew. Another process that reads the file now may
  // keep it from that; the next time will do.
  Status clear_log() {
    Statement first(db_, "SELECT 1 FROM requests LIMIT 1");
    TRY(const bool kept, db_.step(first));
    if (kept) return ok_status();
    Statement checkpoint(db_, "PRAGMA wal_checkpoint(TRUNCATE)");
    static_cast<void>(checkpoint.step());
    return ok_status();
  }

  // Sizes are asked for before a byte is read: the writer of the file chose them.
  Status read_rows(Loaded& loaded, std::vector<std::int64_t>& dropped) {
    Statement row(db_,
                  "SELECT id, ended, length(name), length(digest), length(CAST(owner AS BLOB)), "
                  "length(request), name, digest, owner, request FROM requests ORDER BY id DESC");
    std::size_t room = limits::kKeptBytes;
    while (true) {
      TRY(const bool there, db_.step(row));
      if (!there) return ok_status();
      const std::int64_t id = row.number(0);
      const bool sizes = row.number(2) == 32 && row.number(3) == 32 &&
                         row.number(4) <= static_cast<std::int64_t>(kOwnerBytes) &&
                         row.number(5) <= static_cast<std::int64_t>(limits::kKeptRequestBytes);
      RequestRow out;
      if (!sizes || loaded.rows.size() >= limits::kKeptRequests ||
          static_cast<std::size_t>(row.number(5)) > room || !row.get(6, out.name) ||
          !row.get(7, out.digest)) {
        dropped.push_back(id);
        continue;
      }
      out.ended = row.number(1);
      out.owner = row.text(8);
      const ByteSpan request = row.blob(9);
      out.request.assign(request.begin(), request.end());
      room -= out.request.size();
      TRY(const bool whole, read_tokens(id, room, out.tokens));
      if (whole) {
        loaded.rows.push_back(std::move(out));
      } else {
        dropped.push_back(id);
      }
    }
  }

  // False when there are more than `room`, or one of a size that no version writes.
  Result<bool> read_tokens(std::int64_t id, std::size_t& room, std::vector<Bytes>& out) {
    Statement row(db_,
                  "SELECT length(tokens), tokens FROM request_tokens WHERE request = ? "
                  "ORDER BY rowid");
    row.add(id);
    while (true) {
      TRY(const bool there, db_.step(row));
      if (!there) return true;
      const auto size = static_cast<std::size_t>(row.number(0));
      if (size == 0 || size > limits::kKeptTokensBytes || size > room) return false;
      const ByteSpan tokens = row.blob(1);
      out.emplace_back(tokens.begin(), tokens.end());
      room -= size;
    }
  }

  std::mutex mutex_;
  Database db_;
};

}  // namespace

Result<std::shared_ptr<RequestStore>> open_request_store(const std::string& folder) {
  auto store = std::make_shared<SqliteRequestStore>(folder + "/hearth.db");
  TRY_VOID(store->open());
  return std::shared_ptr<RequestStore>(std::move(store));
}

}  // namespace hearth::coordinator

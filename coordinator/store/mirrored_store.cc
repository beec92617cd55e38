#include "coordinator/store/mirrored_store.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/store/place.h"
#include "coordinator/store/postgres_lease.h"
#include "coordinator/store/sqlite_database.h"

namespace hearth::coordinator {
namespace {

constexpr auto kStoreWait = std::chrono::milliseconds(limits::kStoreMilliseconds);
constexpr auto kFollowPause = std::chrono::milliseconds(500);  // without a notice
constexpr auto kReconnectLeast = std::chrono::milliseconds(250);
constexpr auto kReconnectMost = std::chrono::seconds(5);
static_assert(kReconnectLeast < kReconnectMost, "pauses grow");

Error deposed(const StoreUrl& url, const std::string& leader) {
  return Error::of(ErrorCode::kRefused, "another coordinator leads with the store ", url.shown,
                   ": ", leader, "; this one writes nothing more");
}

}  // namespace

MirroredStore::MirroredStore(StoreUrl url, LeaseTerm term,
                             std::function<void(const Error&)> on_lost)
    : url_(std::move(url)),
      term_(std::move(term)),
      on_lost_(std::move(on_lost)),
      wakes_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

MirroredStore::~MirroredStore() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
}

// kRefused: another coordinator has taken the lease.
Status MirroredStore::check_term(PostgresDatabase& database) const {
  TRY(const LeaseView lease, read_lease(database));
  const bool is_ours = lease.epoch == term_.epoch && lease.holder == term_.holder;
  return is_ours ? ok_status() : deposed(url_, lease.leader.name);
}

// Without the mutex: nothing waits for a machine that does not answer.
Result<MirroredStore::Remote> MirroredStore::connect() const {
  PostgresOptions options{url_, Database::Flush::kEveryCommit, kStoreWait};
  options.term = term_;
  TRY(auto database, PostgresDatabase::open(options));
  TRY_VOID(check_term(*database));
  TRY_VOID(database->listen(PostgresDatabase::kRowsChannel));
  Remote remote;
  remote.database = database.get();
  TRY(remote.store, SqlStore::open(std::move(database)));
  return remote;
}

// The first connection, and the first copy.
Status MirroredStore::begin() {
  TRY(Remote remote, connect());
  const MutexLock lock(mutex_);
  remote_ = std::move(remote);
  TRY_VOID(copy());
  secret_ = mirror()->secret_key();
  return ok_status();
}

Result<std::shared_ptr<MirroredStore>> MirroredStore::open(
    const StoreUrl& url, const LeaseTerm& term, std::function<void(const Error&)> on_lost) {
  if (term.epoch == 0) return deposed(url, "it has taken the lease meanwhile");
  const std::shared_ptr<MirroredStore> store(new MirroredStore(url, term, std::move(on_lost)));
  if (!store->wakes_.open()) {
    return Error{ErrorCode::kIo, "there is no file descriptor left for the store's thread"};
  }
  TRY_VOID(store->begin());
  store->thread_ = std::thread([raw = store.get()] { raw->run(); });
  return store;
}

// A standby that took over without the last transactions would readmit nodes that were removed.
Status MirroredStore::check_newest(const PostgresDatabase::Head& head) {
  if (head.changes < seen_) {
    return Error::of(ErrorCode::kRefused, "the store ", url_.shown,
                     " was replaced by an older copy (", head.changes, " changes; there were ",
                     seen_,
                     "); put the newest copy back, or take the members from the newest roster: "
                     "hearth nodes restore");
  }
  seen_ = head.changes;
  return ok_status();
}

std::shared_ptr<SqlStore> MirroredStore::mirror() const {
  const MutexLock lock(mirror_mutex_);
  return mirror_;
}

// Into a new mirror, so that no reader waits for it.
Status MirroredStore::copy() {
  TRY(const PostgresDatabase::Head head, remote_->database->head());
  TRY_VOID(check_newest(head));
  TRY(const StoreRows rows, remote_->store->rows());
  if (mirror() != nullptr && rows.secret != secret_) {
    return Error::of(ErrorCode::kRefused, "the store ", url_.shown, " is another one than before");
  }
  TRY(auto memory, SqliteDatabase::open_in_memory());
  TRY_VOID(memory->transaction([&] { return write_store(*memory, rows); }));
  TRY(std::shared_ptr<SqlStore> fresh, SqlStore::open(std::move(memory)));
  copied_ = head.changes;
  const MutexLock lock(mirror_mutex_);
  mirror_ = std::move(fresh);
  return ok_status();
}

// kRefused: the store is no longer this coordinator's.
Status MirroredStore::follow() {
  TRY(const PostgresDatabase::Head head, remote_->database->head());
  TRY_VOID(check_term(*remote_->database));
  if (!head.moved.empty()) {
    return Error::of(ErrorCode::kRefused, "the rows of the store ", url_.shown, " were moved to ",
                     head.moved);
  }
  TRY_VOID(check_newest(head));
  return head.changes == copied_ ? ok_status() : copy();
}

void MirroredStore::note_loss(const Error& why) {
  if (away_.empty() && why.code != ErrorCode::kRefused) {
    spdlog::warn("{}; requests go on, and what must be stored is refused until it is back",
                 why.message);
  }
  away_ = why.message;
  remote_.reset();
  copied_ = -1;
}

void MirroredStore::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(*wakes_, &one, sizeof one));
}

// False: the thread is to end.
bool MirroredStore::connect_again() {
  auto pause = std::chrono::milliseconds(0);
  while (true) {
    pollfd woken{*wakes_, POLLIN, 0};
    ::poll(&woken, 1, static_cast<int>(pause.count()));
    std::uint64_t ignored = 0;
    static_cast<void>(!::read(*wakes_, &ignored, sizeof ignored));
    {
      const MutexLock lock(mutex_);
      if (stopping_) return false;
    }
    auto remote = connect();
    if (!remote.ok() && remote.error().code == ErrorCode::kRefused) {
      on_lost_(remote.error());
      return false;
    }
    const MutexLock lock(mutex_);
    if (remote.ok()) {
      remote_ = *std::move(remote);
      const Status copied = copy();
      if (copied.ok()) {
        away_.clear();
        spdlog::info("the store {} is back", url_.shown);
        return true;
      }
      note_loss(copied.error());
      if (copied.error().code == ErrorCode::kRefused) {
        on_lost_(copied.error());
        return false;
      }
    } else {
      away_ = remote.error().message;
    }
    pause = std::clamp(2 * pause, kReconnectLeast,
                       std::chrono::duration_cast<std::chrono::milliseconds>(kReconnectMost));
  }
}

void MirroredStore::run() {
  while (true) {
    int socket = -1;
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
      if (remote_) {
        const Status followed = follow();
        if (!followed.ok()) note_loss(followed.error());
        if (!followed.ok() && followed.error().code == ErrorCode::kRefused) {
          on_lost_(followed.error());
          return;
        }
      }
      if (remote_) socket = remote_->database->socket();
    }
    if (socket < 0) {
      if (!connect_again()) return;
      continue;
    }
    std::array<pollfd, 2> either = {pollfd{*wakes_, POLLIN, 0}, pollfd{socket, POLLIN, 0}};
    ::poll(either.data(), either.size(),
           static_cast<int>(std::chrono::milliseconds(kFollowPause).count()));
    std::uint64_t ignored = 0;
    static_cast<void>(!::read(*wakes_, &ignored, sizeof ignored));
  }
}

// The mirror changes as the database has: another process's change in between is seen by its count.
template <typename Work>
std::invoke_result_t<Work, Store&> MirroredStore::write(Work work) {
  const MutexLock lock(mutex_);
  if (!remote_) {
    return Error::of(ErrorCode::kUnavailable, away_,
                     "; the swarm goes on computing, but this change must be stored: try again "
                     "when the store is back");
  }
  auto done = work(*remote_->store);
  if (!done.ok()) {
    if (!remote_->database->lost()) return done;
    note_loss(done.error());
    wake();
    return Error::of(ErrorCode::kUnavailable, away_,
                     "; whether this change was stored shows when the store is back");
  }
  const auto mirrored = work(*mirror());
  copied_ = mirrored.ok() ? copied_ + 1 : -1;
  INVARIANT(copied_ >= -1, "changes are counted up");
  // A copy without this change is older, also where it takes the place of the database at once.
  const auto head = remote_->database->head();
  if (head.ok()) seen_ = std::max(seen_, head->changes);
  return done;
}

Status MirroredStore::add_token(const TokenRecord& token) {
  return write([&](Store& store) { return store.add_token(token); });
}
Result<std::optional<TokenRecord>> MirroredStore::find_token(std::string_view id) {
  return mirror()->find_token(id);
}
Result<std::vector<TokenRecord>> MirroredStore::tokens() { return mirror()->tokens(); }
Result<bool> MirroredStore::any_token(std::int64_t now) { return mirror()->any_token(now); }
Result<bool> MirroredStore::revoke_token(std::string_view id) {
  return write([&](Store& store) { return store.revoke_token(id); });
}
Status MirroredStore::admit(const Admission& admission) {
  return write([&](Store& store) { return store.admit(admission); });
}
Result<std::optional<NodeRecord>> MirroredStore::find_node(const PublicKey& key) {
  return mirror()->find_node(key);
}
Result<std::vector<NodeRecord>> MirroredStore::nodes() { return mirror()->nodes(); }
Result<bool> MirroredStore::revoke_node(const PublicKey& key) {
  return write([&](Store& store) { return store.revoke_node(key); });
}
Result<std::optional<std::uint64_t>> MirroredStore::roster_number() {
  return mirror()->roster_number();
}
Status MirroredStore::note_roster(std::uint64_t number) {
  return write([&](Store& store) { return store.note_roster(number); });
}
Status MirroredStore::restore(std::uint64_t number, const std::vector<PublicKey>& out,
                              const std::vector<NodeRecord>& in) {
  return write([&](Store& store) { return store.restore(number, out, in); });
}
Status MirroredStore::put_waiting(const WaitingNode& node) {
  return write([&](Store& store) { return store.put_waiting(node); });
}
Result<std::vector<WaitingNode>> MirroredStore::waiting() { return mirror()->waiting(); }
Status MirroredStore::forget_waiting(std::int64_t seen_before) {
  TRY(const auto all, mirror()->waiting());
  const auto old = [&](const WaitingNode& node) { return node.seen < seen_before; };
  if (std::ranges::none_of(all, old)) return ok_status();
  return write([&](Store& store) { return store.forget_waiting(seen_before); });
}
Result<Store::Machines> MirroredStore::machines() { return mirror()->machines(); }
Status MirroredStore::put_machines(const Machines& machines) {
  return write([&](Store& store) { return store.put_machines(machines); });
}
Status MirroredStore::add_key(const ApiKey& key) {
  return write([&](Store& store) { return store.add_key(key); });
}
Status MirroredStore::replace_key(const ApiKey& key) {
  return write([&](Store& store) { return store.replace_key(key); });
}
Result<std::optional<ApiKey>> MirroredStore::find_key(std::string_view id) {
  return mirror()->find_key(id);
}
Result<std::vector<ApiKey>> MirroredStore::keys() { return mirror()->keys(); }
Result<bool> MirroredStore::revoke_key(std::string_view id_or_name) {
  return write([&](Store& store) { return store.revoke_key(id_or_name); });
}

Result<std::shared_ptr<Store>> open_server_store(const std::string& folder, const LeaseTerm& term,
                                                 std::function<void(const Error&)> on_lost) {
  TRY(const auto url, read_store_url(folder));
  if (!url) return open_store(folder);
  TRY(auto store, MirroredStore::open(*url, term, std::move(on_lost)));
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace hearth::coordinator

#include "coordinator/store/postgres_lease.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "base/crypto.h"
#include "base/hex.h"
#include "base/limits.h"

namespace hearth::coordinator {
namespace {

using std::chrono::steady_clock;

constexpr LeaseTimes kTimes;
constexpr auto kQuestionWait = std::chrono::milliseconds(500);
constexpr auto kDialWait = std::chrono::seconds(1);
constexpr auto kShowEvery = std::chrono::seconds(2);
constexpr std::size_t kStandbysMost = 16;
static_assert(kTimes.renew + 2 * (kQuestionWait + kTimes.retry) < kTimes.held(),
              "two late renewals do not end a lease");

// In microseconds: so that no sum of times overflows.
constexpr std::int64_t kLastsMost = std::int64_t{24} * 3'600 * 1'000'000;

std::int64_t microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

}  // namespace

LeaseSelf lease_self(std::string api, std::string control, std::string cluster) {
  std::array<std::byte, 16> id{};
  random_bytes(id);
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string name = message_of(host.data(), ", process ", ::getpid());
  return {to_hex(id), {name, std::move(api), std::move(control)}, std::move(cluster)};
}

PostgresLease::PostgresLease(StoreUrl url, LeaseSelf self, Duration lease, bool also_moved)
    : url_(std::move(url)), self_(std::move(self)), lease_(lease), also_moved_(also_moved) {}

Status PostgresLease::connect() {
  if (db_ != nullptr && !db_->lost()) return ok_status();
  PostgresOptions options{url_, Database::Flush::kEveryCommit, kQuestionWait, also_moved_};
  options.dial = kDialWait;
  TRY(db_, PostgresDatabase::open(options));
  shown_ = {};
  Status listens = db_->listen(PostgresDatabase::kLeaseChannel);
  if (!listens.ok()) db_.reset();  // a connection without notices is not kept
  return listens;
}

Result<LeaseView> PostgresLease::ask(const LeaseQuestion& question) {
  TRY_VOID(connect());
  if (question.kind != LeaseAsk::kWatch) TRY_VOID(change(question));
  TRY(LeaseView view, read_lease(*db_));
  // A coordinator that is to be refused is no standby: the leader would count on it.
  const bool is_of_these = view.cluster.empty() || view.cluster == self_.cluster;
  // Also after a take in vain: after a silence, that is its first question.
  const bool waits = question.kind == LeaseAsk::kWatch ||
                     (question.kind == LeaseAsk::kTake && view.holder != self_.id);
  if (waits && (is_of_these || self_.cluster.empty())) TRY_VOID(show_standby());
  return view;
}

// Each is one statement, and so one transaction.
Status PostgresLease::change(const LeaseQuestion& question) {
  bool changed = false;
  const auto epoch = static_cast<std::int64_t>(question.epoch);
  if (question.kind == LeaseAsk::kTake) {
    TRY(changed,
        Statement(
            *db_,
            "UPDATE lease SET holder = $1, name = $2, api = $3, control = $4, epoch = epoch + "
            "1, began = greatest(extract(epoch FROM clock_timestamp())::bigint, began + 1), "
            "lasts = $5, renewed = renewed + 1, ends = clock_timestamp() + $5 * interval "
            "'1 microsecond', cluster = CASE WHEN $6 = '' THEN cluster ELSE $6 END WHERE epoch "
            "= $7 AND renewed = $8 AND holder = $9 AND (ends <= clock_timestamp() OR ends > "
            "clock_timestamp() + "
            "lasts * interval '1 microsecond') AND (cluster = '' OR $6 = '' OR cluster = $6)")
            .add(self_.id, self_.peer.name, self_.peer.api, self_.peer.control,
                 microseconds(lease_), self_.cluster, epoch, question.renewed, question.holder)
            .run());
  } else if (question.kind == LeaseAsk::kRenew) {
    TRY_VOID(Statement(*db_,
                       "UPDATE lease SET lasts = $1, renewed = renewed + 1, ends = "
                       "clock_timestamp() + $1 * interval '1 microsecond' WHERE epoch = $2 AND "
                       "holder = $3")
                 .add(microseconds(lease_), epoch, self_.id)
                 .run());
  } else {
    shown_ = {};
    TRY(changed, Statement(*db_,
                           "UPDATE lease SET lasts = 0, renewed = renewed + 1, ends = "
                           "least(ends, clock_timestamp()) WHERE epoch = $1 AND holder = $2")
                     .add(epoch, self_.id)
                     .run());
    TRY_VOID(Statement(*db_,
                       "DELETE FROM coordinators WHERE id = $1 OR seen < clock_timestamp() - "
                       "interval '1 day'")
                 .add(self_.id)
                 .run());
  }
  if (!changed) return ok_status();
  return db_->execute("NOTIFY " + std::string(PostgresDatabase::kLeaseChannel));
}

Status PostgresLease::show_standby() {
  const auto now = steady_clock::now();
  if (shown_ != steady_clock::time_point() && now - shown_ < kShowEvery) return ok_status();
  TRY_VOID(Statement(*db_,
                     "INSERT INTO coordinators (id, name, api, control, seen) VALUES ($1, $2, $3, "
                     "$4, clock_timestamp()) ON CONFLICT (id) DO UPDATE SET seen = excluded.seen")
               .add(self_.id, self_.peer.name, self_.peer.api, self_.peer.control)
               .run());
  shown_ = now;
  return ok_status();
}

Result<LeaseView> read_lease(PostgresDatabase& db) {
  LeaseView view;
  std::int64_t lasts = 0;
  std::int64_t left = 0;
  {
    Statement row(db,
                  "SELECT epoch, holder, name, api, control, began, lasts, renewed, "
                  "(extract(epoch FROM ends - clock_timestamp()) * 1000000)::bigint, cluster "
                  "FROM lease");
    TRY(const bool there, row.step());
    const bool is_read =
        there && row.read(view.epoch, view.holder, view.leader.name, view.leader.api,
                          view.leader.control, view.began, lasts, view.renewed, left, view.cluster);
    if (!is_read || lasts < 0 || lasts > kLastsMost) {
      return db.damaged("the row of the table lease is missing or wrong");
    }
  }
  view.lasts = std::chrono::microseconds(lasts);
  view.left = std::chrono::microseconds(left);
  Statement row(db,
                "SELECT name, api, control FROM coordinators WHERE id <> $1 AND seen > "
                "clock_timestamp() - interval '10 seconds' ORDER BY name");
  row.add(view.holder);
  while (view.standbys.size() < kStandbysMost) {
    TRY(const bool there, row.step());
    if (!there) break;
    LeasePeer& peer = view.standbys.emplace_back();
    if (!row.read(peer.name, peer.api, peer.control)) return db.damaged("a coordinator's row");
  }
  return view;
}

}  // namespace hearth::coordinator

#include "coordinator/proof/ledger_service.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/limits.h"
#include "coordinator/proof/ledger_clock.h"
#include "coordinator/proof/ledger_snapshot.h"
#include "coordinator/proof/vesting.h"
#include "coordinator/proof/witness_collector.h"
#include "ledger/archive.h"
#include "ledger/log.h"

namespace hearth::coordinator {
namespace {

// Between two appends: what a crash costs, and what a disk is asked for.
constexpr auto kPause = std::chrono::milliseconds(500);
// Between two looks at which requests have no receipts to come.
constexpr auto kSweepPause = std::chrono::milliseconds(100);
// Maximum delay of this thread for new requests of the API key with the most requests.
constexpr auto kBehind = std::chrono::seconds(2);
constexpr auto kDiskPause = std::chrono::seconds(60);  // between two looks at the disk
// Of those that a snapshot spares the fold, the latest, whose receipts are remembered.
constexpr std::uint64_t kRecalledEntries = 4 * ReceiptCollector::kRemembered;
// From here on the log's time is not told from that of a clock that is kept right.
constexpr std::int64_t kAheadSeconds = 60;

}  // namespace

struct LedgerService::State : std::enable_shared_from_this<State> {
  State(const SecretKey& cluster, const Clock& wall, AuditMode mode, Post given,
        std::shared_ptr<Credits> accounts)
      : clock(wall),
        credits(std::move(accounts)),
        desk(cluster, clock, credits),
        audits(cluster, clock, mode, credits != nullptr),
        witnesses(cluster.public_key(), clock),
        post(std::move(given)) {}

  // Runs a task on the thread, and then round(). `bytes`: that it holds. Any thread.
  void push(std::size_t bytes, std::function<void(State&)> task);
  void tick();
  void round(bool is_last);
  void take(const std::string& node, const control::v1::WorkerMessage& message);
  Status open_log(std::unique_ptr<ledger::LogFolder> folder, const SecretKey& cluster);
  void store_snapshot(std::uint64_t least);
  void publish_status();
  void post_standing();
  void collect();
  void send_messages();
  void append();
  void witness();
  void store_machines();
  void watch_disk();
  void warn_of_time() const;
  void give_up_log(const std::string& why);
  void fold();
  void draw_or_vest();
  void free_credit();
  void grant(const PublicKey& to, std::int64_t amount,
             const std::function<void(const Status&)>& done);
  Status keep_evidence(const Auditor::ForLog& one);
  void ask_referee();
  void tell_standing();
  void compute(const AuditRun& run);
  std::set<PublicKey> find_newcomers() const;

  LedgerClock clock;
  const std::shared_ptr<Credits> credits;

  // The thread's.
  ReceiptCollector desk;
  Auditor audits;
  WitnessCollector witnesses;
  MachineHistory machines;
  bool machines_unstored = false;  // and it was said
  std::unique_ptr<ledger::Log> log;
  std::vector<Bytes> entries;  // that are to be appended
  Vesting vesting;
  std::int64_t granted = 0;                                  // by those of them
  std::vector<std::function<void(const Status&)>> appended;  // told when they are on the disk
  Referee referee;
  Keep keep;
  TimePoint next_append{};
  TimePoint next_timer{};
  TimePoint next_sweep{};
  TimePoint next_disk{};
  std::uint64_t stored = 0;              // entries of the latest snapshot
  std::optional<std::uint64_t> counted;  // entries, when standings were
  std::optional<std::uint64_t> told;     // likewise, newcomers
  bool is_round_due = false;

  std::atomic<bool> late = false;  // said in the log already
  std::mutex mutex;
  Post post;  // empty once the owner is gone
  AuditStatus status;
  std::shared_ptr<const Standings> standings;  // null when nothing is audited
  std::string fault;
  std::optional<std::uint64_t> free;  // bytes of the log's disk
  std::map<PublicKey, std::string> barred;
  std::set<PublicKey> newcomers;  // by the books
  std::set<PublicKey> unvouched;  // whom the books do not know

  // The main thread's. A callback may begin to listen, or cease.
  std::vector<std::weak_ptr<const Listener>> listeners;
  template <typename Tell>
  void tell(const Tell& one) {
    std::erase_if(listeners, [](const auto& each) { return each.expired(); });
    for (const auto& each : std::vector(listeners)) {
      if (const auto listener = each.lock()) one(*listener);
    }
  }

  std::optional<WorkerThread> worker;  // last: it uses all of the above
};

void LedgerService::State::push(std::size_t bytes, std::function<void(State&)> task) {
  auto run = [this, task = std::move(task)] {
    task(*this);
    // Behind the tasks that wait now, so that what follows from them is done once.
    if (!std::exchange(is_round_due, true)) worker->post([this] { round(false); }, 0);
  };
  if (worker->post(std::move(run), bytes) || worker->stopping() || late.exchange(true)) return;
  spdlog::warn("the ledger's thread is overloaded: some requests get no receipts");
}

void LedgerService::State::tick() {
  round(false);
  worker->post_after(kPause, [this] { tick(); });
}

void LedgerService::State::round(bool is_last) {
  is_round_due = false;
  const auto now = clock.now();
  if (now >= next_timer) {
    next_timer = now + std::chrono::seconds(1);
    collect();  // what was said before has a time before that of what follows
    clock.follow(desk.is_asking() || audits.is_pending());
    desk.on_timer();
    audits.on_timer();
    publish_status();
    watch_disk();
  }
  collect();
  ask_referee();
  free_credit();
  if (!entries.empty() && (is_last || now >= next_append)) {
    append();
    next_append = clock.now() + kPause;
  }
  witness();
  store_machines();
  tell_standing();
  send_messages();
  if (!is_last) draw_or_vest();
}

void LedgerService::State::publish_status() {
  AuditStatus newest = audits.status();
  newest.unreceipted = desk.unreceipted().counts();
  const bool is_off = newest.mode == AuditMode::kOff;
  std::shared_ptr<const Standings> known;
  if (!is_off && std::exchange(counted, audits.books().entries()) != audits.books().entries()) {
    known = std::make_shared<const Standings>(standings_of(audits.books()));
  }
  const std::lock_guard lock(mutex);
  const bool same = newest.unreceipted.silent == status.unreceipted.silent;
  status = std::move(newest);
  if (known || is_off) standings = std::move(known);
  if (!same) post_standing();
}

// With the mutex.
void LedgerService::State::post_standing() {
  if (!post) return;
  post([self = shared_from_this()] {
    self->tell([](const Listener& one) {
      if (one.standing) one.standing();
    });
  });
}

void LedgerService::State::take(const std::string& node,
                                const control::v1::WorkerMessage& message) {
  using Message = control::v1::WorkerMessage;
  switch (message.body_case()) {
    case Message::kWindowClaims:
      audits.take(node, message.window_claims());
      return desk.take(node, message.window_claims());
    case Message::kReceipts: return desk.take(node, message.receipts());
    case Message::kSeals: return audits.take(node, message.seals());
    case Message::kOpenings: return audits.take(node, message.openings());
    case Message::kAnswer: return audits.verdicts().on_answer(node, message.answer());
    case Message::kSelfChecked:
      return audits.verdicts().keys().on_self_checked(node, message.self_checked());
    case Message::kCosigned:
      if (log != nullptr) witnesses.take(node, message.cosigned(), *log);
      return;
    default: return;
  }
}

// What both desks have for the log.
void LedgerService::State::collect() {
  for (const Auditor::ForLog& one : audits.take_entries()) {
    if (one.evidence.empty() && desk.contradicted(one.member)) continue;  // a seal, an opening
    if (const Status kept = keep_evidence(one); !kept.ok()) {
      spdlog::error("a verdict is not logged, because its evidence cannot be stored: {}",
                    kept.error().message);
      continue;
    }
    // From the verdict on, no receipt of its key is in the log that the books would refuse.
    const bool is_somebodys = one.member != PublicKey();
    if (!one.evidence.empty()) {
      if (is_somebodys) desk.bar(one.member);
      next_append = {};  // and the books know it before its node may be given work again
    }
    if (is_somebodys) desk.enter(one.member);
    desk.log(one.body);
  }
  for (Bytes& entry : desk.take_entries()) entries.push_back(std::move(entry));
}

Status LedgerService::State::keep_evidence(const Auditor::ForLog& one) {
  if (one.evidence.empty()) return ok_status();
  if (!keep) return Error{ErrorCode::kUnavailable, "this server has no folder for evidence"};
  return keep(blake2b(one.evidence), one.evidence);
}

// It answers on whatever thread it likes, perhaps after the listener is gone.
void LedgerService::State::ask_referee() {
  const auto ask = [this](ledger::RefereeCase request, auto answered) {
    const auto done = [self = shared_from_this(),
                       answered](const Result<ledger::RefereeFinding>& finding) {
      self->push(0, [answered, finding](State& state) { answered(state.audits, finding); });
    };
    if (referee) return referee(std::move(request), done);
    done(Error{ErrorCode::kUnavailable, "this server has none"});
  };
  if (auto one = audits.referee().take_ask(clock.wall().unix_seconds())) {
    ask(std::move(one->request), [number = one->number](Auditor& auditor, const auto& finding) {
      auditor.refereed(number, finding);
    });
  }
  for (DisputeResolver::Ask& one : audits.verdicts().take_asks()) {
    ask(std::move(one.request), [entry = one.entry](Auditor& auditor, const auto& finding) {
      auditor.verdicts().found(entry, finding);
    });
  }
}

// Newcomers first: a node with too many faults is one before it may get work again.
void LedgerService::State::tell_standing() {
  std::map<PublicKey, std::string> now = audits.verdicts().keys().barred();
  const bool moved = std::exchange(told, audits.books().entries()) != audits.books().entries();
  std::set<PublicKey> fresh = moved ? find_newcomers() : std::set<PublicKey>();
  const std::lock_guard lock(mutex);
  bool same = true;
  if (moved) {
    const auto known = std::erase_if(unvouched, [this](const PublicKey& key) {
      return audits.books().standing(key) != nullptr;
    });
    same = fresh == newcomers && known == 0;
    desk.set_newcomers(fresh);
    newcomers = std::move(fresh);
  }
  if (now == barred && same) return;
  for (const auto& [key, why] : barred) {
    if (!now.contains(key)) desk.unbar(key);
  }
  for (const auto& [key, why] : now) desk.bar(key);
  barred = std::move(now);
  post_standing();
}

std::set<PublicKey> LedgerService::State::find_newcomers() const {
  std::set<PublicKey> found;
  const ledger::Books& books = audits.books();
  for (const PublicKey& key : books.keys()) {
    const ledger::Standing& one = *books.standing(key);
    if (one.level(books.policy(), books.time()) == ledger::Level::kNewcomer) found.insert(key);
  }
  return found;
}

void LedgerService::State::send_messages() {
  AuditOutput out = audits.take_output();
  for (ReceiptCollector::Message& message : desk.take_messages()) {
    NodeMessage& one = out.messages.emplace_back();
    one.node = std::move(message.node);
    *one.body.mutable_countersign() = std::move(message.body);
  }
  for (NodeMessage& one : witnesses.take_messages()) out.messages.push_back(std::move(one));
  if (out.messages.empty() && out.runs.empty() && out.outcomes.empty()) return;
  const std::lock_guard lock(mutex);
  if (!post) return;
  post([self = shared_from_this(), out = std::move(out)] {
    for (const NodeMessage& one : out.messages) {
      self->tell([&one](const Listener& owner) {
        if (owner.send) owner.send(one.node, one.body);
      });
    }
    for (const AuditRun& run : out.runs) self->compute(run);
    for (const AuditOutcome& outcome : out.outcomes) {
      self->tell([&outcome](const Listener& owner) {
        if (owner.outcome) owner.outcome(outcome);
      });
    }
  });
}

void LedgerService::State::compute(const AuditRun& run) {
  bool taken = false;
  tell([&run, &taken](const Listener& owner) { taken = taken || (owner.run && owner.run(run)); });
  if (taken) return;
  push(0, [request = run.order.request](State& state) {
    state.audits.put_off(request, "the pipeline that was to compute it has ended");
  });
}

void LedgerService::State::append() {
  Status written = Error{ErrorCode::kIo, "the ledger has stopped logging"};
  if (log != nullptr) {
    const std::vector<ByteSpan> spans(entries.begin(), entries.end());
    written = ok_status();
    for (std::size_t at = 0; at < spans.size() && written.ok(); at += limits::kLogBatch) {
      const auto part = std::span(spans).subspan(at);
      const auto index = log->append(part.first(std::min(part.size(), limits::kLogBatch)));
      if (!index) written = index.error();
    }
    if (written.ok()) {
      fold();
      store_snapshot(kSnapshotEvery);
    } else {
      give_up_log(written.error().message);
    }
  }
  entries.clear();
  granted = 0;
  for (const auto& tell : std::exchange(appended, {})) tell(written);
}

// When at least so many entries are not in the latest one. One that fails is not tried again soon.
void LedgerService::State::store_snapshot(std::uint64_t least) {
  const std::uint64_t entries = audits.books().entries();
  if (log == nullptr || entries < stored + least) return;
  stored = entries;
  const std::optional<Bytes> snapshot = audits.snapshot();
  if (!snapshot || snapshot->size() > kSnapshotBytes) return;
  const Status kept = log->keep_snapshot(*snapshot);
  if (!kept.ok()) {
    spdlog::warn("the next start folds more of the ledger: its snapshot cannot be stored: {}",
                 kept.error().message);
  }
}

void LedgerService::State::give_up_log(const std::string& why) {
  spdlog::error("the ledger stops: no receipts are logged from now on, and answers name none: {}",
                why);
  log.reset();
  if (credits) credits->stop(why);
  const std::lock_guard lock(mutex);
  fault = why;
}

void LedgerService::State::witness() {
  if (log == nullptr) return;
  const Status stored = witnesses.on_timer(*log);
  if (!stored.ok()) {
    give_up_log(stored.error().message);
  } else if (!witnesses.fault().empty()) {
    give_up_log(witnesses.fault());
  }
}

// Once all changes are in the log.
void LedgerService::State::store_machines() {
  if (log == nullptr || !entries.empty()) return;
  const Status stored = machines.store();
  if (!stored.ok() && !machines_unstored) {
    spdlog::error("cannot store the machines of nodes yet: {}", stored.error().message);
  }
  machines_unstored = !stored.ok();
}

void LedgerService::State::watch_disk() {
  const TimePoint now = clock.now();
  if (log == nullptr || now < next_disk) return;
  next_disk = now + kDiskPause;
  const auto left = log->free_bytes();
  if (left && *left < limits::kLogFreeBytes) {
    spdlog::warn(
        "the disk of the ledger has {} MiB left; without any, no receipts are logged: make "
        "room, or move old entries (hearth ledger archive FOLDER)",
        *left / limits::kMiB);
  }
  const std::lock_guard lock(mutex);
  free = left;
}

void LedgerService::State::warn_of_time() const {
  const std::int64_t ahead = clock.unix_seconds() - clock.wall().unix_seconds();
  if (ahead <= kAheadSeconds) return;
  spdlog::warn(
      "the ledger's time is {} s ahead of this machine's clock, which is wrong or was "
      "ahead once; receipts use the ledger's time",
      ahead);
}

void LedgerService::State::fold() {
  for (const Bytes& entry : entries) {
    const Status folded = audits.logged(entry);
    if (!folded.ok()) {
      spdlog::error("audits stop, because an entry of the ledger breaks its rules: {}",
                    folded.error().message);
      if (credits && !audits.follows()) credits->stop(folded.error().message);
    }
    if (!audits.follows()) return;
    if (credits) credits->posted(audits.books().postings());
  }
}

void LedgerService::State::free_credit() {
  const auto now = clock.now();
  if (!credits || now < next_sweep) return;
  next_sweep = now + kSweepPause;
  credits->sweep([this] { return desk.unsettled(); }, clock.now());
}

void LedgerService::State::grant(const PublicKey& to, std::int64_t amount,
                                 const std::function<void(const Status&)>& done) {
  if (!credits) {
    return done(Error{ErrorCode::kRefused,
                      "this cluster runs without credits; a cluster with credits is made with "
                      "hearth init --credits"});
  }
  if (amount < 1 || amount > ledger::kGrantMax) {
    return done(Error::invalid("an amount of ", amount, "; a grant is from 1 to ",
                               ledger::kGrantMax, " credits"));
  }
  if (amount > Credits::kCirculationMax - credits->in_circulation() - granted) {
    return done(Error::invalid("more credits would be in circulation than the limit, ",
                               Credits::kCirculationMax));
  }
  if (log == nullptr || !audits.follows()) {
    return done(Error{ErrorCode::kUnavailable, "the ledger has failed and takes no grant"});
  }
  granted += amount;
  desk.log(ledger::GrantEntry{to, amount});
  appended.push_back(done);
  next_append = {};
}

// At a checkpoint, when nothing else is to be the next entry: a draw, or what vests by books that
// know all before, so that no dispute can come between.
void LedgerService::State::draw_or_vest() {
  if (!entries.empty() || log == nullptr) return;
  if (const auto drawn = audits.draw()) {
    desk.log(*drawn);
  } else if (credits && audits.follows()) {
    for (const ledger::VestEntry& one : vesting.due(audits.books(), clock.unix_seconds())) {
      desk.log(one);
    }
  }
  entries = desk.take_entries();
}

// Scans the log, and folds what is behind its snapshot. Where that covers what is archived, nothing
// is read in the archive.
Status LedgerService::State::open_log(std::unique_ptr<ledger::LogFolder> folder,
                                      const SecretKey& cluster) {
  TRY(const ledger::Checkpoint checkpoint, ledger::read_checkpoint(*folder));
  TRY(const auto archived, ledger::read_archive_note(*folder));
  std::optional<LedgerSnapshot> known = find_snapshot(cluster, *folder, checkpoint);
  const std::uint64_t from = known ? known->books.entries() : 0;
  const std::uint64_t by_hash =
      known && archived ? std::min(archived->entries, known->books.first_window()) : 0;
  const auto begin_fold = [this, &known]() -> Status {
    if (!known) return ok_status();
    const Status restored = audits.recall(*std::exchange(known, std::nullopt));
    REQUIRE(restored.ok(), ledger::kSnapshotFile, ": ", restored.error().message,
            "; without this file the whole log is folded");
    desk.recall(audits.books());
    return ok_status();
  };
  const auto visit = [&](std::uint64_t index, ByteSpan entry, const Hash256& leaf) -> Status {
    if (index < from) {
      if (index + kRecalledEntries >= from) desk.remember_entry(entry);
      return known->books.reread(index, entry);
    }
    TRY_VOID(begin_fold());
    TRY_VOID(desk.recall(entry));
    return audits.recall(entry, leaf);
  };
  TRY(log, ledger::Log::open(std::move(folder), cluster, visit, by_hash));
  TRY_VOID(begin_fold());
  stored = from;
  store_snapshot(kSnapshotEvery);
  return ok_status();
}

Result<std::unique_ptr<LedgerService>> LedgerService::open(
    std::unique_ptr<ledger::LogFolder> folder, const SecretKey& cluster, std::string build,
    AuditMode audits, const Clock& clock, Post post, std::shared_ptr<Credits> credits,
    WorkerThread::Schedule schedule) {
  auto state = std::make_shared<State>(cluster, clock, audits, std::move(post), std::move(credits));
  const auto found = ledger::read_checkpoint(*folder);
  if (!found && found.error().code == ErrorCode::kNotFound) {
    TRY(state->log, ledger::Log::create(std::move(folder), cluster));
  } else {
    TRY_VOID(state->open_log(std::move(folder), cluster));
  }
  for (const std::string& what : state->log->damaged()) {
    spdlog::error("{}; this copy is ignored until its witness cosigns again", what);
  }
  state->clock.begin_at(state->audits.books().time());
  state->warn_of_time();
  state->status = state->audits.status();
  state->newcomers = state->find_newcomers();
  state->desk.set_newcomers(state->newcomers);
  state->barred = state->audits.verdicts().keys().barred();
  for (const auto& [key, why] : state->barred) state->desk.bar(key);
  if (state->credits) state->credits->begin(state->audits.books());
  WorkerThread::Options queue;
  queue.max_cost = limits::kReceiptQueueBytes;
  queue.when_stopped = WorkerThread::WhenStopped::kFinish;
  queue.schedule = std::move(schedule);
  state->worker.emplace(queue);
  state->worker->post([raw = state.get()] { raw->tick(); });
  if (state->credits) {
    state->credits->set_queue([weak = std::weak_ptr(state)](const ledger::RequestId& request) {
      const auto alive = weak.lock();
      if (alive) alive->push(0, [request](State& one) { one.credits->close(request); });
    });
  }
  return std::unique_ptr<LedgerService>(new LedgerService(std::move(build), std::move(state)));
}

LedgerService::LedgerService(std::string build, std::shared_ptr<State> state)
    : build_(std::move(build)), state_(std::move(state)) {}

LedgerService::~LedgerService() {
  state_->listeners.clear();
  {
    const std::lock_guard lock(state_->mutex);
    state_->post = nullptr;
  }
  state_->worker->stop();
  state_->round(true);
  state_->store_snapshot(1);
}

std::string LedgerService::fault() const {
  const std::lock_guard lock(state_->mutex);
  return state_->fault;
}

std::optional<std::int64_t> LedgerService::time() const { return state_->clock.unix_seconds(); }

std::optional<std::uint64_t> LedgerService::free_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->free;
}

void LedgerService::summarise(std::function<void(const LedgerSummary& summary)> done) const {
  state_->push(0,
               [done = std::move(done)](State& state) { done(summary_of(state.audits.books())); });
}

std::shared_ptr<const LedgerService::Listener> LedgerService::listen(Listener listener) {
  auto made = std::make_shared<const Listener>(std::move(listener));
  state_->listeners.push_back(made);
  return made;
}

void LedgerService::set_referee(Referee referee, Keep keep, std::int64_t rate) {
  state_->push(0, [referee = std::move(referee), keep = std::move(keep), rate](State& state) {
    state.audits.referee().set_rate(referee ? rate : 0);
    state.referee = referee;
    state.keep = keep;
  });
}

void LedgerService::grant(const PublicKey& to, std::int64_t amount,
                          std::function<void(const Status&)> done) {
  state_->push(
      0, [to, amount, done = std::move(done)](State& state) { state.grant(to, amount, done); });
}

void LedgerService::take_up_disputes(std::function<std::vector<Bytes>()> kept) {
  state_->push(0, [kept = std::move(kept)](State& state) {
    if (!state.audits.books().disputes().empty()) state.audits.verdicts().take_up(kept());
  });
}

std::string LedgerService::why_barred(const PublicKey& key) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->barred.find(key);
  return found == state_->barred.end() ? "" : found->second;
}

std::string LedgerService::why_unreceipted(const std::string& node,
                                           const std::string& build) const {
  const std::lock_guard lock(state_->mutex);
  if (state_->status.mode == AuditMode::kOff) return "";
  if (build.empty()) return "its program makes no receipts";
  if (build != build_) {
    return "its build is " + build + ", this server's is " + build_ +
           ": install the same version on both";
  }
  return state_->status.unreceipted.silent.contains(node)
             ? "it gave no receipts for its latest windows: hearth logs on its machine may say why"
             : "";
}

void LedgerService::doubt(const PublicKey& key) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->unvouched.insert(key);
  }
  state_->push(0, [key](State& state) {
    state.desk.doubt(key);
    state.desk.enter(key);
    state.told.reset();
  });
}

bool LedgerService::is_newcomer(const PublicKey& key) const {
  const std::lock_guard lock(state_->mutex);
  return state_->newcomers.contains(key) || state_->unvouched.contains(key);
}

AuditStatus LedgerService::audits() const {
  const std::lock_guard lock(state_->mutex);
  return state_->status;
}

void LedgerService::ask_settled(std::function<void(bool settled)> done) {
  state_->push(0, [done = std::move(done)](State& state) {
    const bool settled = state.desk.is_settled() && state.audits.status().running == 0;
    const std::lock_guard lock(state.mutex);
    if (!state.post) return;
    state.post([done, settled] { done(settled); });
  });
}

std::shared_ptr<const Standings> LedgerService::standings() const {
  const std::lock_guard lock(state_->mutex);
  return state_->standings;
}

void LedgerService::begin(ReceiptPipeline pipeline) {
  state_->push(0, [pipeline = std::move(pipeline)](State& state) {
    state.audits.begin(pipeline);
    state.desk.begin(pipeline);
  });
}

void LedgerService::start(Epoch epoch, const ledger::RequestId& request, std::uint64_t positions,
                          const std::string& owner) {
  const TimePoint since = state_->clock.now();
  state_->push(0, [epoch, request, positions, owner, since](State& state) {
    const bool is_behind = state.clock.now() - since > kBehind && state.desk.heaviest() == owner;
    // Of what is computed for an audit there are seals, and no receipts.
    if (is_behind || state.audits.is_run(request)) return;
    state.desk.start(epoch, request, positions, owner);
  });
}

void LedgerService::skip(const std::vector<std::string>& foreign, std::size_t stages,
                         const std::string& owner, std::uint64_t tokens) {
  // The last token is never fed.
  const std::uint64_t windows =
      (tokens - 1 + limits::kWindowPositions - 1) / limits::kWindowPositions;
  state_->push(0, [foreign, stages, owner, windows](State& state) {
    for (const std::string& node : foreign) state.desk.unreceipted().add(node, owner, windows);
    state.desk.unreceipted().add("", owner, windows * (stages - foreign.size()));
  });
}

void LedgerService::over(ReceiptRequest request) {
  const std::size_t bytes =
      request.tokens.size() * sizeof(TokenId) + request.sampling.grammar.size();
  state_->push(bytes, [request = std::move(request)](State& state) {
    state.audits.over(request);
    if (state.credits) state.credits->over(request.order.request);
    state.desk.over(request);
  });
}

void LedgerService::end(Epoch epoch) {
  state_->push(0, [epoch](State& state) {
    state.audits.end(epoch);
    state.desk.end(epoch);
  });
}

void LedgerService::put_off(const ledger::RequestId& run, const std::string& why) {
  state_->push(why.size(), [run, why](State& state) { state.audits.put_off(run, why); });
}

void LedgerService::give_up(const ledger::RequestId& run, const std::string& why) {
  state_->push(why.size(), [run, why](State& state) { state.audits.give_up(run, why); });
}

void LedgerService::take(const std::string& node, const control::v1::WorkerMessage& message) {
  state_->push(message.ByteSizeLong(),
               [node, message](State& state) { state.take(node, message); });
}

void LedgerService::meet(const std::string& node, const PublicKey& key) {
  state_->push(0, [node, key](State& state) {
    state.audits.verdicts().meet(node, key);
    state.witnesses.meet(node, key);
  });
}

void LedgerService::remember_machines(MachineHistory machines) {
  state_->push(0, [machines = std::move(machines)](State& state) { state.machines = machines; });
}

void LedgerService::meet_machine(const PublicKey& key, const std::string& machine) {
  state_->push(machine.size(), [key, machine](State& state) {
    if (!state.machines.meet(key, machine)) return;
    state.desk.enter(key);
    state.desk.log(ledger::ChangeEntry{key});
  });
}

void LedgerService::lose(const std::string& node) {
  state_->push(0, [node](State& state) {
    state.desk.lose(node);
    state.audits.verdicts().lose(node);
    state.witnesses.lose(node);
  });
}

}  // namespace hearth::coordinator

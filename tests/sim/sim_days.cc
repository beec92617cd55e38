#include "tests/sim/sim_days.h"

#include <malloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/limits.h"
#include "coordinator/proof/ledger_service.h"
#include "kernels/canonical.h"
#include "ledger/books.h"
#include "ledger/scan.h"
#include "node/pipeline/stage.h"
#include "node/proof/receipt_maker.h"
#include "tests/sim/memory_folder.h"
#include "tests/sim/sim_transport.h"
#include "tests/sim/sim_world.h"

namespace hearth::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kBuild = "simulated";
constexpr std::uint32_t kStages = 2;
constexpr std::size_t kWorkers = 5;  // two pipelines, which audit each other, and a spare node
constexpr std::size_t kAway = 2;     // at once, at most
constexpr Duration kReturn = seconds(3);
constexpr Duration kTick = milliseconds(50);
constexpr std::int64_t kDay = 24 * 3'600;
// By which a wall clock is wrong.
constexpr std::int64_t kWrong[] = {0,    0,    1,     -1,       30,        -30,        900,
                                   -900, kDay, -kDay, 7 * kDay, -7 * kDay, 365 * kDay, -365 * kDay};

// What one machine believes the time to be. It outlives the machine's processes.
class WallClock final : public Clock {
 public:
  explicit WallClock(SimWorld& world) : world_(world) {}
  TimePoint now() const override { return world_.now(); }
  std::int64_t unix_seconds() const override { return world_.unix_seconds() + wrong_; }
  void jump() { wrong_ = kWrong[world_.between(0, std::size(kWrong) - 1)]; }

 private:
  SimWorld& world_;
  std::int64_t wrong_ = 0;
};

SecretKey key_of(const std::string& host) {
  const Hash256 seed = blake2b(as_bytes("key of " + host));
  return SecretKey::from_seed(seed.bytes).value();
}

WorkerThread::Schedule schedule_of(SimWorld& world) {
  return [&world](Duration delay, WorkerThread::Task task) { world.after(delay, std::move(task)); };
}

// To the thread of the state machines, of which there is one here.
std::function<void(std::function<void()>)> post_of(SimWorld& world) {
  return [&world](std::function<void()> task) { world.after(Duration(0), std::move(task)); };
}

struct WorkerProcess {
  WorkerProcess(SimNetwork& network, SimWorld& world, const Clock& clock, EnginePool& pool,
                const std::string& name, std::uint32_t incarnation, const Reference& reference)
      : control(network, world, name, name + ":control"),
        data(network, world, name, name + ":data" + std::to_string(incarnation)),
        compute(pool, world, 1),
        receipts({key_of(name), key_of("cluster").public_key(), kBuild}, clock, post_of(world),
                 schedule_of(world)) {
    node::StageOptions options = stage_options(name, pool, incarnation);
    options.receipts = &receipts;
    options.draft = reference.drafts(world);
    stage = std::make_unique<node::Stage>(options, clock, world.random(), control, data, compute);
  }

  SimTransport control;
  SimTransport data;
  SimCompute compute;
  node::ReceiptMaker receipts;
  std::unique_ptr<node::Stage> stage;
};

struct Machine {
  Machine(SimWorld& world, std::string of) : name(std::move(of)), clock(world) { clock.jump(); }
  std::string name;
  WallClock clock;
  std::unique_ptr<WorkerProcess> worker;
  bool frozen = false;
  std::optional<Away> away;
  std::uint32_t pauses = 0;
  TimePoint lost_until{};
};

struct CoordinatorProcess {
  CoordinatorProcess(SimNetwork& network, SimWorld& world, const Clock& clock,
                     const EnginePool& pool, const std::shared_ptr<Files>& files)
      : control(network, world, "coordinator", kControlAddress),
        data(network, world, "coordinator", "coordinator:data") {
    auto opened = coordinator::LedgerService::open(
        std::make_unique<MemoryFolder>(files), key_of("cluster"), kBuild,
        coordinator::AuditMode::kSpot, clock, post_of(world), nullptr, schedule_of(world));
    INVARIANT(opened.ok(), opened.error().message.c_str());
    ledger = *std::move(opened);
    coordinator::CoordinatorOptions options;
    options.stages = kStages;
    options.model_fingerprint = "00ff";
    options.layers = pool.spec().layers;
    options.shape = {pool.spec().hidden, pool.spec().vocabulary, pool.spec().context, false};
    options.canonical_version = kernels::kCanonicalVersion;
    options.cache_secret = Hash256{};
    options.batch_rows = 64;
    options.receipts = ledger.get();
    // As of the server (cli/serve/serve.cc).
    options.first_epoch =
        static_cast<std::uint64_t>(clock.unix_seconds()) * limits::kEpochsOfSecond;
    options.forming_timeout = seconds(5);
    machine = coordinator::Coordinator::start(options, clock, world.random(), control, data);
  }

  SimTransport control;
  SimTransport data;
  std::unique_ptr<coordinator::LedgerService> ledger;
  std::unique_ptr<coordinator::Coordinator> machine;
};

// One "hour".
struct Schedule {
  Duration turmoil = minutes(50);
  Duration settling = minutes(2);
  Duration quiet = minutes(6);
  Duration wait = minutes(2);  // for receipts and audits
  std::uint64_t request_us = 16'000'000;
  std::uint64_t fault_us = 240'000'000;
  std::uint64_t away_us = 600'000'000;
};

Schedule short_schedule() {
  return {minutes(4), seconds(40), minutes(2), minutes(2), 2'000'000, 10'000'000, 20'000'000};
}

class DaysSwarm {
 public:
  DaysSwarm(std::uint64_t seed, const Schedule& schedule, EnginePool& pool,
            const Reference& reference, bool print)
      : world_(seed, print),
        pool_(pool),
        reference_(reference),
        schedule_(schedule),
        network_(world_, {}),
        client_(world_, reference, 0),
        clock_(world_) {
    clock_.jump();
    for (std::size_t i = 0; i < kWorkers; ++i) {
      machines_.push_back(std::make_unique<Machine>(world_, "w" + std::to_string(i)));
      network_.set_key(machines_.back()->name, key_of(machines_.back()->name).public_key());
    }
    client_.want_receipts({[this] { return order(); },
                           [this](const ReceiptOrder& of) {
                             (quiet_ ? quiet_answers_ : answers_).push_back(of.request);
                           }});
  }

  DaysOutcome run(std::uint32_t hours) {
    start_coordinator();
    for (auto& machine : machines_) start_worker(*machine);
    tick();
    next_request();
    for (outcome_.hours = 0; outcome_.hours < hours; ++outcome_.hours) hour();
    count_coordinator();
    coordinator_->machine.reset();
    coordinator_->ledger.reset();  // which writes what it has
    check_log();
    outcome_.quiet_requests = quiet_answers_.size();
    outcome_.tally = client_.tally();
    outcome_.violations = client_.violations();
    return outcome_;
  }

 private:
  ReceiptOrder order() {
    Hash256 own = blake2b(as_bytes(std::to_string(world_.random().next())));
    const std::int64_t time = coordinator_->ledger->time().value_or(0);
    ReceiptOrder made;
    made.request = ledger::request_of(ledger::answer_name(time, own.bytes), 0);
    made.salt = blake2b(own.bytes);
    return made;
  }

  void hour() {
    turmoil_ = true;
    next_fault();
    world_.run_until(world_.now() + schedule_.turmoil);
    turmoil_ = false;
    calm();
    world_.run_until(world_.now() + schedule_.settling);
    end_audits();
    const coordinator::AuditStatus before = coordinator_->ledger->audits();
    const Tally tally = client_.tally();
    quiet_ = true;
    for (int i = 0; i < 3; ++i) {
      world_.run_until(world_.now() + schedule_.quiet / 3);
      jump();
    }
    asks_ = false;
    world_.run_until(world_.now() + schedule_.wait);
    quiet_ = false;
    check_quiet(before, tally);
    take_footprint();
    asks_ = true;
    next_request();
  }

  // What the turmoil began is audited or missed before the quiet part counts: receipts that were
  // lost have a minute and a half, and a window whose pipeline shares a node with each that serves
  // now has the hour that the rules allow.
  void end_audits() {
    asks_ = false;
    const TimePoint last = world_.now() + schedule_.wait + seconds(ledger::Policy().audit_seconds);
    do {
      world_.run_until(world_.now() + schedule_.wait);
    } while (audits_are_open() && world_.now() < last);
    if (audits_are_open()) client_.violation("an audit is open after its hour");
    asks_ = true;
    next_request();
  }

  bool audits_are_open() const {
    const coordinator::AuditStatus audits = coordinator_->ledger->audits();
    return audits.waiting + audits.running > 0;
  }

  void check_quiet(const coordinator::AuditStatus& before, const Tally& tally) {
    const std::string when = " in the quiet part of hour " + std::to_string(outcome_.hours);
    const auto expect_zero = [&](const std::string& what, std::uint64_t value) {
      if (value != 0) client_.violation(std::to_string(value) + " " + what + when);
    };
    const coordinator::AuditStatus audits = coordinator_->ledger->audits();
    expect_zero("windows without receipts", audits.unreceipted.total - before.unreceipted.total);
    expect_zero("silent nodes", audits.unreceipted.silent.size());
    expect_zero("windows that no audit checked", audits.missed_total - before.missed_total);
    expect_zero("audits that wait", audits.waiting);
    expect_zero("audits that run", audits.running);
    expect_zero("disputes", audits.disputed_total + audits.open_disputes);
    expect_zero("refused", client_.tally().refused - tally.refused);
    expect_zero("failed, ever", client_.tally().failed);
    expect_zero("open streams", client_.open_streams());
    const coordinator::SwarmStatus status = coordinator_->machine->status();
    expect_zero("running", status.running + status.running_audits);
    expect_zero("waiting", status.waiting);
    expect_zero("pipelines less than two", kWorkers / kStages - status.pipelines.size());
    for (const auto& pipeline : status.pipelines) {
      expect_zero("reserved pages", pipeline.kv_pages_reserved);
    }
    for (const auto& machine : machines_) {
      expect_zero("used pages", machine->worker->compute.kv_pages_used());
    }
    if (!coordinator_->ledger->fault().empty()) client_.violation(coordinator_->ledger->fault());
  }

  void take_footprint() {
    client_.forget_ended();
    Footprint now;
    now.requests = client_.tally().submitted;
    for (const auto& [name, bytes] : *files_) now.log_bytes += bytes.capacity();
    const std::uint64_t records =
        (quiet_answers_.capacity() + answers_.capacity()) * sizeof(ledger::RequestId);
    const auto heap = ::mallinfo2();
    now.heap_bytes = heap.uordblks + heap.hblkhd - now.log_bytes - records;
    now.links = network_.links();
    now.nodes = coordinator_->machine->status().nodes.size();
    now.pending = world_.pending();
    outcome_.footprints.push_back(now);
  }

  void start_coordinator() {
    coordinator_ = std::make_unique<CoordinatorProcess>(network_, world_, clock_, pool_, files_);
  }
  void start_worker(Machine& machine) {
    machine.worker = std::make_unique<WorkerProcess>(network_, world_, machine.clock, pool_,
                                                     machine.name, ++incarnation_, reference_);
    machine.worker->stage->set_away(machine.away);
  }

  void tick() {
    if (coordinator_) coordinator_->machine->on_timer();
    for (auto& machine : machines_) {
      if (!machine->worker || machine->frozen) continue;
      machine->worker->stage->set_away(machine->away);
      machine->worker->stage->on_timer();
    }
    network_.on_timer();
    world_.after(kTick, [this] { tick(); });
  }

  void next_request() {
    if (!asks_) return;
    if (coordinator_) {
      const std::uint64_t burst = world_.chance(3) ? world_.between(5, 20) : 1;
      for (std::uint64_t i = 0; i < burst; ++i) client_.submit(*coordinator_->machine);
      if (!quiet_ && world_.chance(5)) client_.cancel_one(*coordinator_->machine);
    }
    world_.after(world_.microseconds(1'000, schedule_.request_us), [this] { next_request(); });
  }

  void next_fault() {
    if (!turmoil_) return;
    fault();
    world_.after(world_.microseconds(1'000'000, schedule_.fault_us), [this] { next_fault(); });
  }

  // One machine's wall clock, or several of them, or the coordinator's, is set.
  void jump() {
    ++outcome_.jumps;
    world_.trace("a clock jumps");
    if (world_.chance(30)) clock_.jump();
    for (auto& machine : machines_) {
      if (world_.chance(30)) machine->clock.jump();
    }
  }

  bool covered() const {
    const auto lost = std::ranges::count_if(
        machines_, [&](const auto& one) { return one->lost_until > world_.now(); });
    return static_cast<std::size_t>(lost) < kAway;
  }

  void fault() {
    if (world_.chance(20)) return jump();
    if (!covered()) return;
    Machine& machine = *machines_[world_.between(0, machines_.size() - 1)];
    const Duration how_long = world_.microseconds(1'000, schedule_.away_us);
    machine.lost_until = std::max(machine.lost_until, world_.now() + how_long + kReturn);
    switch (world_.between(0, 8)) {
      case 0:
      case 1: return crash(machine, how_long);
      case 2: return freeze(machine, how_long);
      case 3: return take(machine, how_long, false);
      case 4: return take(machine, how_long, true);
      case 5: return crash_coordinator();
      case 6:
        ++outcome_.other_faults;
        network_.partition(machine.name);
        return world_.after(how_long, [this, &machine] { network_.heal(machine.name); });
      case 7: ++outcome_.other_faults; return network_.break_a_link();
      default: ++outcome_.other_faults; return network_.clog_a_link(seconds(1));
    }
  }

  void crash(Machine& machine, Duration how_long) {
    if (!machine.worker) return;
    ++outcome_.crashes;
    world_.trace("crash of " + machine.name);
    thaw(machine);
    machine.worker.reset();
    if (world_.chance(50)) machine.clock.jump();
    world_.after(how_long, [this, &machine] {
      if (!machine.worker) start_worker(machine);
    });
  }

  void freeze(Machine& machine, Duration how_long) {
    if (!machine.worker || std::exchange(machine.frozen, true)) return;
    ++outcome_.freezes;
    network_.freeze(machine.name);
    machine.worker->compute.freeze();
    world_.after(how_long, [this, &machine] { thaw(machine); });
  }
  void thaw(Machine& machine) {
    if (!std::exchange(machine.frozen, false)) return;
    network_.thaw(machine.name);
    machine.worker->compute.thaw();
  }

  void take(Machine& machine, Duration how_long, bool drain) {
    if (machine.away) return;
    ++outcome_.pauses;
    world_.trace((drain ? "drain of " : "pause of ") + machine.name);
    machine.away = Away{drain, 0, "its owner"};
    const std::uint32_t number = ++machine.pauses;
    world_.after(how_long, [&machine, number] {
      if (machine.pauses == number) machine.away.reset();
    });
  }

  void count_coordinator() {
    const coordinator::AuditStatus audits = coordinator_->ledger->audits();
    outcome_.resumed += coordinator_->machine->status().resumed_total;
    outcome_.audited += audits.agreed_total;
    outcome_.missed += audits.missed_total;
  }

  void crash_coordinator() {
    if (!coordinator_) return;
    ++outcome_.restarts;
    world_.trace("crash of the coordinator");
    count_coordinator();
    coordinator_.reset();
    client_.abandon();
    if (world_.chance(50)) clock_.jump();
    world_.after(world_.microseconds(1'000, 5'000'000), [this] {
      if (!coordinator_) start_coordinator();
    });
  }

  void calm() {
    world_.trace("calm");
    network_.heal();
    if (!coordinator_) start_coordinator();
    for (auto& machine : machines_) {
      thaw(*machine);
      machine->away.reset();
      ++machine->pauses;
      machine->lost_until = {};
      if (!machine->worker) start_worker(*machine);
    }
  }

  // The log is sound by all its rules, and has a receipt of every stage for every answer that was
  // given while nothing went wrong.
  void check_log() {
    MemoryFolder folder(files_);
    ledger::Books books;
    std::map<ledger::RequestId, std::map<std::uint64_t, std::set<std::uint16_t>>> found;
    const auto scan =
        ledger::scan_log(folder, {key_of("cluster").public_key(), {}},
                         [&](std::uint64_t /*index*/, ByteSpan entry, const Hash256& leaf) {
                           const ByteSpan receipt = ledger::receipt_in(entry);
                           if (!receipt.empty()) {
                             const ledger::Slot slot = ledger::slot_in(receipt);
                             found[slot.request][slot.epoch].insert(slot.stage);
                           }
                           return books.apply(entry, leaf);
                         });
    if (!scan) return client_.violation("the log is not sound: " + scan.error().message);
    outcome_.log_entries = scan->checkpoint.size;
    const auto is_whole = [&](const ledger::RequestId& request) {
      return std::ranges::any_of(found[request],
                                 [](const auto& epoch) { return epoch.second.size() == kStages; });
    };
    outcome_.receipted =
        static_cast<std::uint64_t>(std::ranges::count_if(answers_, is_whole)) +
        static_cast<std::uint64_t>(std::ranges::count_if(quiet_answers_, is_whole));
    const auto missing = static_cast<std::size_t>(
        std::ranges::count_if(quiet_answers_, [&](const auto& one) { return !is_whole(one); }));
    if (missing > 0) {
      client_.violation(std::to_string(missing) + " answers of quiet times have no receipts");
    }
  }

  SimWorld world_;
  EnginePool& pool_;
  const Reference& reference_;
  const Schedule schedule_;
  SimNetwork network_;
  SimClient client_;
  WallClock clock_;  // the coordinator's
  const std::shared_ptr<Files> files_ = std::make_shared<Files>();
  std::vector<std::unique_ptr<Machine>> machines_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
  std::uint32_t incarnation_ = 0;
  bool turmoil_ = false;
  bool quiet_ = false;
  bool asks_ = true;
  std::vector<ledger::RequestId> answers_;  // whole ones, in time of faults
  std::vector<ledger::RequestId> quiet_answers_;
  DaysOutcome outcome_;
};

}  // namespace

DaysOutcome run_days(std::uint64_t seed, std::uint32_t hours, bool short_hours, EnginePool& pool,
                     const Reference& reference, bool print) {
  const Schedule schedule = short_hours ? short_schedule() : Schedule();
  return DaysSwarm(seed, schedule, pool, reference, print).run(hours);
}

}  // namespace hearth::sim

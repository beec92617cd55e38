#include "tests/sim/sim_swarm.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/limits.h"
#include "kernels/canonical.h"

namespace hearth::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTurmoil = seconds(6);
constexpr Duration kReturn =
    seconds(2);  // for a worker to be noticed, to rest, and to be free again
constexpr Duration kQuiet = seconds(25);  // for every stream to end, and service to come back

// The process of one worker; its destruction is a crash.
struct WorkerProcess {
  WorkerProcess(SimNetwork& network, SimWorld& world, EnginePool& pool, const std::string& name,
                std::uint32_t incarnation, std::uint32_t slowness, const Reference& reference)
      : control(network, world, name, name + ":control"),
        data(network, world, name, name + ":data" + std::to_string(incarnation)),
        compute(pool, world, slowness) {
    node::StageOptions options = stage_options(name, pool, incarnation);
    options.draft = reference.drafts(world);
    stage = std::make_unique<node::Stage>(options, world, world.random(), control, data, compute);
  }

  SimTransport control;
  SimTransport data;
  SimCompute compute;
  std::unique_ptr<node::Stage> stage;
};

struct CoordinatorProcess {
  CoordinatorProcess(SimNetwork& network, SimWorld& world, const EnginePool& pool,
                     std::uint32_t stages, std::uint64_t first_epoch)
      : control(network, world, "coordinator", kControlAddress),
        data(network, world, "coordinator", "coordinator:data") {
    coordinator::CoordinatorOptions options;
    options.stages = stages;
    options.model_fingerprint = "00ff";
    options.layers = pool.spec().layers;
    options.shape = {pool.spec().hidden, pool.spec().vocabulary, pool.spec().context, false};
    options.canonical_version = kernels::kCanonicalVersion;
    options.cache_secret = Hash256{};
    options.batch_rows = 64;
    options.first_epoch = first_epoch;
    options.forming_timeout = seconds(5);
    machine = coordinator::Coordinator::start(options, world, world.random(), control, data);
  }

  SimTransport control;
  SimTransport data;
  std::unique_ptr<coordinator::Coordinator> machine;
};

class Swarm {
 public:
  Swarm(std::uint64_t seed, EnginePool& pool, const Reference& reference, bool print)
      : world_(seed, print),
        pool_(pool),
        reference_(reference),
        network_(world_, network_options()),
        stages_(static_cast<std::uint32_t>(
            world_.between(Reference::kStagesLeast, Reference::kStagesMost))),
        client_(world_, reference, stages_) {
    outcome_.seed = seed;
    fault_percent_ = static_cast<std::uint32_t>(world_.between(0, 3) * 20);
    const std::uint64_t spare = world_.between(0, 3);
    const std::uint64_t workers = spare == 3 ? stages_ * 2ULL : stages_ + spare;
    covered_ = workers > stages_ && world_.chance(67);
    if (covered_ && world_.chance(75)) fault_percent_ = 100;
    for (std::uint64_t i = 0; i < workers; ++i) {
      names_.push_back(std::string("w").append(std::to_string(i)));
      slowness_.push_back(world_.chance(15) ? 20 : 1);
    }
    workers_.resize(workers);
    lost_until_.resize(workers);
    away_.resize(workers);
    pauses_.resize(workers);
  }

  Outcome run() {
    start_coordinator();
    for (std::size_t i = 0; i < workers_.size(); ++i) start_worker(i);
    tick();
    world_.after(milliseconds(300), [this] { next_request(); });
    world_.after(milliseconds(400), [this] { next_fault(); });
    world_.run_until(kTurmoil);
    calm();
    world_.run_until(kTurmoil + kQuiet);
    check_idle("after the turmoil");
    check_fences();
    check_service();
    check_blame();
    outcome_.trace_hash = world_.trace_hash();
    outcome_.events = world_.events();
    outcome_.tally = client_.tally();
    outcome_.violations = client_.violations();
    return outcome_;
  }

 private:
  NetworkOptions network_options() {
    NetworkOptions options;
    options.delay_high_us = world_.chance(50) ? 500 : 8'000;
    options.queue_bytes = world_.chance(30) ? 600 : 1 << 20;
    return options;
  }

  void start_coordinator() {
    // Its clock jumps between two starts, each time in the other direction.
    const std::uint64_t number = incarnation_++;
    const std::uint64_t second = number % 2 == 0 ? 1'000'000 + number : 1'000'000 - number;
    coordinator_ = std::make_unique<CoordinatorProcess>(network_, world_, pool_, stages_,
                                                        second * limits::kEpochsOfSecond);
  }
  void start_worker(std::size_t i) {
    workers_[i] = std::make_unique<WorkerProcess>(network_, world_, pool_, names_[i],
                                                  static_cast<std::uint32_t>(incarnation_++),
                                                  slowness_[i], reference_);
    workers_[i]->stage->set_away(away_[i]);
  }

  void tick() {
    if (coordinator_) coordinator_->machine->on_timer();
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i] || frozen_.contains(i)) continue;
      workers_[i]->stage->set_away(away_[i]);
      workers_[i]->stage->on_timer();
    }
    network_.on_timer();
    world_.after(milliseconds(20), [this] { tick(); });
  }

  void next_request() {
    if (world_.now() >= kTurmoil) return;
    if (coordinator_) {
      // Bursts run over the KV of the swarm, and now and then over the queue.
      const std::uint64_t burst = world_.chance(10) ? world_.between(5, 30) : 1;
      for (std::uint64_t i = 0; i < burst; ++i) client_.submit(*coordinator_->machine);
      if (world_.chance(15)) client_.cancel_one(*coordinator_->machine);
    }
    world_.after(world_.microseconds(1'000, 200'000), [this] { next_request(); });
  }

  void next_fault() {
    if (world_.now() >= kTurmoil) return;
    if (world_.chance(fault_percent_)) fault();
    world_.after(world_.microseconds(50'000, 600'000), [this] { next_fault(); });
  }

  // Workers that are lost, or that rest because they had a part in a loss.
  bool all_covered() const {
    std::size_t lost = 0;
    for (const TimePoint until : lost_until_) lost += until > world_.now() ? 1 : 0;
    return lost + stages_ < workers_.size();
  }
  // Worker i is not to be counted upon until a while after `how_long`.
  void lose(std::size_t i, Duration how_long) {
    lost_until_[i] = std::max(lost_until_[i], world_.now() + how_long + kReturn);
  }

  void fault() {
    if (covered_ && !all_covered()) return;
    ++outcome_.other_faults;
    const std::size_t i = world_.between(0, workers_.size() - 1);
    switch (world_.between(0, 15)) {
      case 0:
      case 1: return crash(i);
      case 2: return !covered_ && world_.chance(90) ? crash_coordinator() : replay();
      case 3:
      case 4: lose_anyone(); return network_.break_a_link();
      case 5: {
        const Duration how_long = world_.microseconds(100'000, 3'000'000);
        lose(i, how_long);
        network_.partition(names_[i]);
        return world_.after(how_long, [this] { network_.heal(); });
      }
      case 6: return replay();
      case 7:
      case 8: return disturb();
      case 9:
      case 10: return freeze(i);
      case 11:
      case 12: return take(i, false);
      case 13: return take(i, true);
      default: {
        const Duration how_long = world_.microseconds(10'000, 2'000'000);
        lose_anyone(how_long);
        return network_.clog_a_link(how_long);
      }
    }
  }

  // The loss of a link lets one worker rest, whichever it is.
  void lose_anyone(Duration how_long = Duration{}) {
    const auto soonest = std::min_element(lost_until_.begin(), lost_until_.end());
    lose(static_cast<std::size_t>(soonest - lost_until_.begin()), how_long);
  }

  void count_late(const WorkerProcess& worker) {
    outcome_.late_frames += worker.stage->late_frames();
    outcome_.replayed += worker.stage->replayed_rows();
  }
  void count_coordinator() {
    const coordinator::SwarmStatus status = coordinator_->machine->status();
    outcome_.resumed += status.resumed_total;
    outcome_.accepted += status.accepted_total[0];
    outcome_.dropped += status.drafted_total[0] - status.accepted_total[0];
    outcome_.late_frames += coordinator_->machine->status().late_frames_total;
  }

  void replay() {
    --outcome_.other_faults;
    lose_anyone();
    if (network_.replay_a_frame()) ++outcome_.replays;
  }

  void disturb() {
    --outcome_.other_faults;
    ++outcome_.replays;
    lose_anyone();
    network_.disturb_a_link(world_.chance(50));
  }

  void crash(std::size_t i) {
    if (!workers_[i]) return;
    --outcome_.other_faults;
    ++outcome_.crashes;
    world_.trace("crash of " + names_[i]);
    count_late(*workers_[i]);
    if (frozen_.erase(i) > 0) network_.thaw(names_[i]);
    workers_[i].reset();
    const Duration how_long = world_.microseconds(1'000, 2'000'000);
    lose(i, how_long);
    world_.after(how_long, [this, i] {
      if (!workers_[i]) start_worker(i);
    });
  }

  void freeze(std::size_t i) {
    if (!workers_[i] || !frozen_.insert(i).second) return;
    --outcome_.other_faults;
    ++outcome_.freezes;
    network_.freeze(names_[i]);
    workers_[i]->compute.freeze();
    const Duration how_long = world_.microseconds(50'000, 4'000'000);
    lose(i, how_long);
    world_.after(how_long, [this, i] { thaw(i); });
  }
  void thaw(std::size_t i) {
    if (frozen_.erase(i) == 0) return;
    network_.thaw(names_[i]);
    workers_[i]->compute.thaw();
  }

  // The owner takes the machine for a while. A crash meanwhile changes nothing of that.
  void take(std::size_t i, bool drain) {
    if (away_[i]) return;
    --outcome_.other_faults;
    ++outcome_.pauses;
    world_.trace((drain ? "drain of " : "pause of ") + names_[i]);
    away_[i] = Away{drain, 0, "its owner"};
    const Duration how_long = world_.microseconds(50'000, 4'000'000);
    lose(i, how_long);
    const std::uint32_t number = ++pauses_[i];
    world_.after(how_long, [this, i, number] {
      if (pauses_[i] == number) away_[i].reset();
    });
    if (drain || frozen_.contains(i)) return;
    world_.after(seconds(2), [this, i, number, freezes = outcome_.freezes] {
      const bool the_same = away_[i] && pauses_[i] == number && outcome_.freezes == freezes;
      if (!the_same || !workers_[i]) return;
      if (workers_[i]->compute.loaded())
        client_.violation(names_[i] + " is paused and has weights");
    });
  }

  void crash_coordinator() {
    if (!coordinator_) return;
    --outcome_.other_faults;
    ++outcome_.restarts;
    world_.trace("crash of the coordinator");
    count_coordinator();
    coordinator_.reset();
    client_.abandon();
    world_.after(world_.microseconds(1'000, 1'500'000), [this] {
      if (!coordinator_) start_coordinator();
    });
  }

  void calm() {
    world_.trace("calm");
    network_.heal();
    network_.undisturb();
    if (!coordinator_) start_coordinator();
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      thaw(i);
      away_[i].reset();
      ++pauses_[i];
      if (!workers_[i]) start_worker(i);
    }
  }

  void check_idle(const std::string& when) {
    const auto status = coordinator_->machine->status();
    const auto expect_zero = [&](const std::string& what, std::uint64_t value) {
      if (value != 0) client_.violation(what + " is " + std::to_string(value) + " " + when);
    };
    expect_zero("open streams", client_.open_streams());
    expect_zero("running", status.running);
    expect_zero("waiting", status.waiting);
    for (const auto& pipeline : status.pipelines) {
      expect_zero("reserved pages", pipeline.kv_pages_reserved);
      if (pipeline.state != "serving") client_.violation("a pipeline is " + pipeline.state);
    }
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      expect_zero("used pages of " + names_[i], workers_[i]->compute.kv_pages_used());
      if (!workers_[i]->stage->refused().empty()) {
        client_.violation(names_[i] + ": " + workers_[i]->stage->refused());
      }
    }
    const std::size_t expected = workers_.size() / stages_;
    if (status.pipelines.size() != expected) {
      client_.violation(std::to_string(status.pipelines.size()) + " pipelines " + when +
                        ", expected " + std::to_string(expected));
    }
  }

  // Errors need a fault; errors of protocol, a frame that came twice.
  void check_blame() {
    const Tally& tally = client_.tally();
    const bool calm = outcome_.crashes + outcome_.restarts + outcome_.replays + outcome_.freezes +
                          outcome_.pauses + outcome_.other_faults ==
                      0;
    if (calm && tally.failed > 0) client_.violation("an error without a fault");
    if (calm && tally.short_hashes > 0) client_.violation("hashes lost without a fault");
    if (outcome_.replays == 0 && tally.protocol_errors > 0) {
      client_.violation("a breach of protocol without a frame of the past");
    }
    if (covered_ && tally.failed > 0) {
      client_.violation(std::to_string(tally.failed) + " requests failed though spares were there");
    }
    for (const auto& worker : workers_) count_late(*worker);
    count_coordinator();
  }

  std::uint64_t newest_epoch() const {
    std::uint64_t newest = 0;
    for (const auto& pipeline : coordinator_->machine->status().pipelines) {
      newest = std::max(newest, pipeline.epoch.value);
    }
    return newest;
  }

  // Frames of pipelines that are over come while others serve: no node takes notice.
  void check_fences() {
    std::uint64_t oldest = newest_epoch();
    for (const auto& pipeline : coordinator_->machine->status().pipelines) {
      oldest = std::min(oldest, pipeline.epoch.value);
    }
    const std::uint64_t before = newest_epoch();
    const std::uint64_t failed = client_.tally().failed;
    for (int i = 0; i < 10; ++i) {
      client_.submit(*coordinator_->machine);
      world_.run_until(world_.now() + world_.microseconds(1'000, 20'000));
      if (network_.replay_a_frame(Epoch(oldest))) ++outcome_.stale_frames;
    }
    world_.run_until(world_.now() + seconds(8));
    if (newest_epoch() != before) client_.violation("a frame of a lost pipeline ended another");
    if (client_.tally().failed != failed) client_.violation("a request failed in quiet");
    check_idle("after frames of lost pipelines");
  }

  // The swarm serves again, whatever happened to it.
  void check_service() {
    const int last = client_.submit(*coordinator_->machine, 7);
    world_.run_until(world_.now() + seconds(5));
    if (!client_.finished(last)) client_.violation("the last request was not served");
    check_idle("at the end");
  }

  SimWorld world_;
  EnginePool& pool_;
  const Reference& reference_;
  SimNetwork network_;
  std::uint32_t stages_;
  SimClient client_;
  std::uint32_t fault_percent_ = 0;
  bool covered_ = false;
  std::uint64_t incarnation_ = 0;
  std::vector<std::string> names_;
  std::vector<std::uint32_t> slowness_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::set<std::size_t> frozen_;
  std::vector<TimePoint> lost_until_;
  std::vector<std::optional<Away>> away_;
  std::vector<std::uint32_t> pauses_;  // of each, so far
  std::unique_ptr<CoordinatorProcess> coordinator_;
  Outcome outcome_;
};

}  // namespace

Outcome run_swarm(std::uint64_t seed, EnginePool& pool, const Reference& reference, bool print) {
  return Swarm(seed, pool, reference, print).run();
}

}  // namespace hearth::sim

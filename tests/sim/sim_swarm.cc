#include "tests/sim/sim_swarm.h"

#include "kernels/canonical.h"
#include "node/stage_machine.h"

namespace hearth::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTurmoil = seconds(6);
constexpr Duration kQuiet = seconds(25);  // for every stream to end, and service to come back
constexpr const char* kControlAddress = "coordinator:control";

// The process of one worker; its destruction is a crash.
struct WorkerProcess {
  WorkerProcess(SimNetwork& network, SimWorld& world, EnginePool& pool, const std::string& name,
                std::uint32_t incarnation, std::uint32_t slowness)
      : control(network, world, name, name + ":control"),
        data(network, world, name, name + ":data" + std::to_string(incarnation)),
        compute(pool, world, slowness) {
    node::StageOptions options;
    options.node = name;
    options.control_address = kControlAddress;
    options.model_fingerprint = "00ff";
    options.layers = pool.spec().layers;
    options.canonical_version = kernels::kCanonicalVersion;
    options.isa = "sim";
    options.threads = 1;
    options.process_id = incarnation;
    stage = node::Stage::start(options, world, world.random(), control, data, compute);
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
        network_(world_, network_options()),
        stages_(static_cast<std::uint32_t>(
            world_.between(Reference::kStagesLeast, Reference::kStagesMost))),
        client_(world_, reference, stages_) {
    outcome_.seed = seed;
    fault_percent_ = static_cast<std::uint32_t>(world_.between(0, 3) * 20);
    const std::uint64_t spare = world_.between(0, 3);
    const std::uint64_t workers = spare == 3 ? stages_ * 2ULL : stages_ + spare;
    for (std::uint64_t i = 0; i < workers; ++i) {
      names_.push_back(std::string("w").append(std::to_string(i)));
      slowness_.push_back(world_.chance(15) ? 20 : 1);
    }
    workers_.resize(workers);
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
    coordinator_ = std::make_unique<CoordinatorProcess>(network_, world_, pool_, stages_,
                                                        1 + 1'000'000 * incarnation_++);
  }
  void start_worker(std::size_t i) {
    workers_[i] =
        std::make_unique<WorkerProcess>(network_, world_, pool_, names_[i],
                                        static_cast<std::uint32_t>(incarnation_++), slowness_[i]);
  }

  void tick() {
    if (coordinator_) coordinator_->machine->on_timer();
    for (const auto& worker : workers_) {
      if (worker) worker->stage->on_timer();
    }
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

  void fault() {
    ++outcome_.other_faults;
    const std::size_t i = world_.between(0, workers_.size() - 1);
    switch (world_.between(0, 9)) {
      case 0:
      case 1: return crash(i);
      case 2: return world_.chance(30) ? crash_coordinator() : replay();
      case 3:
      case 4: return network_.break_a_link();
      case 5:
        network_.partition(names_[i]);
        return world_.after(world_.microseconds(100'000, 3'000'000), [this] { network_.heal(); });
      case 6:
      case 7: return replay();
      default: return network_.clog_a_link(world_.microseconds(10'000, 1'000'000));
    }
  }

  void count_late(const WorkerProcess& worker) {
    outcome_.late_frames += static_cast<const node::StageMachine&>(*worker.stage).late_frames();
  }

  void replay() {
    --outcome_.other_faults;
    if (network_.replay_a_frame()) ++outcome_.replays;
  }

  void crash(std::size_t i) {
    if (!workers_[i]) return;
    --outcome_.other_faults;
    ++outcome_.crashes;
    world_.trace("crash of " + names_[i]);
    count_late(*workers_[i]);
    workers_[i].reset();
    world_.after(world_.microseconds(1'000, 2'000'000), [this, i] {
      if (!workers_[i]) start_worker(i);
    });
  }

  void crash_coordinator() {
    if (!coordinator_) return;
    --outcome_.other_faults;
    ++outcome_.restarts;
    world_.trace("crash of the coordinator");
    coordinator_.reset();
    client_.abandon();
    world_.after(world_.microseconds(1'000, 1'500'000), [this] {
      if (!coordinator_) start_coordinator();
    });
  }

  void calm() {
    world_.trace("calm");
    network_.heal();
    if (!coordinator_) start_coordinator();
    for (std::size_t i = 0; i < workers_.size(); ++i) {
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
    const bool calm =
        outcome_.crashes + outcome_.restarts + outcome_.replays == 0 && outcome_.other_faults == 0;
    if (calm && tally.failed > 0) client_.violation("an error without a fault");
    if (calm && tally.short_hashes > 0) client_.violation("hashes lost without a fault");
    if (outcome_.replays == 0 && tally.protocol_errors > 0) {
      client_.violation("a breach of protocol without a frame of the past");
    }
    for (const auto& worker : workers_) count_late(*worker);
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
  SimNetwork network_;
  std::uint32_t stages_;
  SimClient client_;
  std::uint32_t fault_percent_ = 0;
  std::uint64_t incarnation_ = 0;
  std::vector<std::string> names_;
  std::vector<std::uint32_t> slowness_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
  Outcome outcome_;
};

}  // namespace

Outcome run_swarm(std::uint64_t seed, EnginePool& pool, const Reference& reference, bool print) {
  return Swarm(seed, pool, reference, print).run();
}

}  // namespace hearth::sim

#include "tests/sim/sim_many.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "coordinator/coordinator.h"
#include "placement/ranges.h"
#include "tests/sim/sim_machines.h"
#include "tests/sim/sim_transport.h"
#include "tests/sim/sim_world.h"

namespace hearth::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kSettled = seconds(45);
constexpr Duration kTurmoil = seconds(6);
constexpr Duration kQuiet = seconds(20);
constexpr Duration kReturn = seconds(2);

class ManySwarm {
 public:
  // Steps of served swarms take longer, so that few enough of them are computed.
  ManySwarm(std::uint64_t seed, EnginePool& pool, const Reference& reference, double slowness,
            bool print)
      : world_(seed, print),
        pool_(pool),
        network_(world_, {}),
        client_(world_, reference, 0),
        control_(network_, world_, "coordinator", kControlAddress),
        data_(network_, world_, "coordinator", "coordinator:data"),
        coordinator_(coordinator::Coordinator::start(many_options(pool), world_, world_.random(),
                                                     control_, data_)),
        slowness_(slowness) {
    const std::uint64_t count = world_.between(24, 60);
    for (std::uint64_t i = 0; i < count; ++i) add_machine();
    for (std::size_t i = 0; i < machines_.size(); ++i) start_worker(i);
    tick();
  }

  ManyOutcome run() {
    outcome_.nodes = static_cast<std::uint32_t>(machines_.size());
    settle();
    outcome_.pipelines = static_cast<std::uint32_t>(pipelines().size());
    end_of_turmoil_ = world_.now() + kTurmoil;
    next_request();
    next_fault();
    world_.run_until(end_of_turmoil_);
    calm();
    world_.run_until(world_.now() + kQuiet);
    check_idle("after the turmoil");
    check_joiners();
    check_stand_in();
    if (client_.tally().failed + client_.tally().refused > 0) client_.violation("a request failed");
    outcome_.resumed = coordinator_->status().resumed_total;
    outcome_.trace_hash = world_.trace_hash();
    outcome_.tally = client_.tally();
    outcome_.violations = client_.violations();
    return outcome_;
  }

  Served serve() {
    Served served;
    settle();
    served.nodes = static_cast<std::uint32_t>(machines_.size());
    served.pipelines = static_cast<std::uint32_t>(pipelines().size());
    const auto plan = placement::plan_ranges(problem_of(machines_));
    if (plan.ok()) served.bound = plan->bound;
    streams_wanted_ = 0;
    for (const auto& pipeline : coordinator_->status().pipelines) {
      streams_wanted_ += 16 * static_cast<std::uint32_t>(pipeline.nodes.size() + 1);
    }
    keep_busy();
    world_.run_until(world_.now() + seconds(10));
    const std::uint64_t before = coordinator_->status().generation_tokens_total;
    world_.run_until(world_.now() + seconds(10));
    const std::uint64_t after = coordinator_->status().generation_tokens_total;
    served.tokens_per_second = static_cast<double>(after - before) / 10.0;
    return served;
  }

 private:
  using Pipelines = std::map<std::uint64_t, std::vector<std::string>>;  // nodes by epoch

  struct Ignored final : coordinator::SequenceEvents {
    void on_admitted() override {}
    void on_token(const SampledToken&) override {}
    void on_hashes(std::vector<RowHash>) override {}
    void on_error(const Error&) override {}
  };

  void add_machine() {
    machines_.push_back(unlike_machine(world_, machines_.size(), slowness_));
    workers_.emplace_back();
  }

  void start_worker(std::size_t i) {
    workers_[i] =
        std::make_unique<WorkerProcess>(network_, world_, pool_, machines_[i], ++incarnation_);
  }

  void set_away(std::size_t i) {
    std::optional<Away> away;
    if (machines_[i].away) away = Away{false, 0, "its owner"};
    workers_[i]->stage->set_away(std::move(away));
  }

  void tick() {
    coordinator_->on_timer();
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i] || frozen_.contains(i)) continue;
      set_away(i);
      workers_[i]->stage->on_timer();
    }
    network_.on_timer();
    world_.after(milliseconds(20), [this] { tick(); });
  }

  void settle() {
    const TimePoint end = world_.now() + kSettled;
    while (world_.now() < end && pipelines().empty()) {
      world_.run_until(world_.now() + milliseconds(500));
    }
    world_.run_until(world_.now() + seconds(2));
    if (pipelines().empty()) client_.violation("none formed: " + coordinator_->status().missing);
  }

  Pipelines pipelines() const {
    Pipelines all;
    for (const auto& pipeline : coordinator_->status().pipelines) {
      if (pipeline.state == "serving") all[pipeline.epoch.value] = pipeline.nodes;
    }
    return all;
  }

  void next_request() {
    if (world_.now() >= end_of_turmoil_) return;
    const std::uint64_t burst = world_.chance(10) ? world_.between(5, 30) : 1;
    for (std::uint64_t i = 0; i < burst && coordinator_->status().ready; ++i) {
      client_.submit(*coordinator_);
    }
    if (world_.chance(10)) client_.cancel_one(*coordinator_);
    world_.after(world_.microseconds(1'000, 60'000), [this] { next_request(); });
  }

  void keep_busy() {
    const auto status = coordinator_->status();
    for (std::uint32_t i = status.running + status.waiting; i < streams_wanted_; ++i) {
      coordinator::GenerateRequest request;
      for (int token = 0; token < 4; ++token) {
        request.prompt.push_back(static_cast<TokenId>(world_.between(0, 299)));
      }
      request.sampling.max_tokens = static_cast<std::uint32_t>(world_.between(20, 120));
      const bool taken = coordinator_->submit(std::move(request), std::make_shared<Ignored>()).ok();
      if (!taken) break;
    }
    world_.after(milliseconds(20), [this] { keep_busy(); });
  }

  // An eighth of the nodes at most are lost, or rest after a loss, at once.
  bool covered() const {
    const auto lost = std::count_if(machines_.begin(), machines_.end(), [&](const Machine& one) {
      return one.lost_until > world_.now();
    });
    return static_cast<std::size_t>(lost) < machines_.size() / 8;
  }

  void next_fault() {
    if (world_.now() >= end_of_turmoil_) return;
    if (covered()) fault();
    world_.after(world_.microseconds(50'000, 500'000), [this] { next_fault(); });
  }

  void fault() {
    const std::size_t i = world_.between(0, machines_.size() - 1);
    const Duration how_long = world_.microseconds(50'000, 3'000'000);
    machines_[i].lost_until = world_.now() + how_long + kReturn;
    switch (world_.between(0, 5)) {
      case 0:
      case 1: return crash(i, how_long);
      case 2: return freeze(i, how_long);
      case 3: return pause(i, how_long);
      case 4: ++outcome_.other_faults; return network_.break_a_link();
      default: return join(how_long);
    }
  }

  void crash(std::size_t i, Duration how_long) {
    if (!workers_[i] || frozen_.contains(i)) return;
    ++outcome_.crashes;
    world_.trace("crash of " + machines_[i].name);
    workers_[i].reset();
    world_.after(how_long, [this, i] {
      if (!workers_[i]) start_worker(i);
    });
  }

  void freeze(std::size_t i, Duration how_long) {
    if (!workers_[i] || !frozen_.insert(i).second) return;
    ++outcome_.freezes;
    world_.trace("freeze of " + machines_[i].name);
    network_.freeze(machines_[i].name);
    workers_[i]->compute.freeze();
    world_.after(how_long, [this, i] { thaw(i); });
  }
  void thaw(std::size_t i) {
    if (frozen_.erase(i) == 0) return;
    network_.thaw(machines_[i].name);
    workers_[i]->compute.thaw();
  }

  void pause(std::size_t i, Duration how_long) {
    ++outcome_.pauses;
    world_.trace("pause of " + machines_[i].name);
    machines_[i].away = true;
    world_.after(how_long, [this, i] { machines_[i].away = false; });
  }

  void join(Duration /*how_long*/ = {}) {
    ++outcome_.joined;
    add_machine();
    world_.trace("join of " + machines_.back().name);
    start_worker(machines_.size() - 1);
  }

  void calm() {
    world_.trace("calm");
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      thaw(i);
      machines_[i].away = false;
      if (!workers_[i]) start_worker(i);
    }
  }

  void check_idle(const std::string& when) {
    const auto status = coordinator_->status();
    const auto expect_zero = [&](const std::string& what, std::uint64_t value) {
      if (value != 0) client_.violation(what + " is " + std::to_string(value) + " " + when);
    };
    expect_zero("open streams", client_.open_streams());
    expect_zero("running", status.running);
    expect_zero("waiting", status.waiting);
    std::set<std::string> nodes;
    for (const auto& pipeline : status.pipelines) {
      expect_zero("reserved pages", pipeline.kv_pages_reserved);
      if (pipeline.state != "serving") client_.violation("a pipeline is " + pipeline.state);
      for (const std::string& node : pipeline.nodes) {
        if (!nodes.insert(node).second) client_.violation(node + " is in two pipelines");
      }
    }
    if (status.pipelines.empty()) client_.violation("no pipeline " + when);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i])
        expect_zero("used pages of " + machines_[i].name, workers_[i]->compute.kv_pages_used());
    }
  }

  // No node of a running pipeline is asked for anything because others come.
  void check_joiners() {
    const Pipelines before = pipelines();
    for (int i = 0; i < 30; ++i) client_.submit(*coordinator_);
    for (int i = 0; i < 4; ++i) join();
    world_.run_until(world_.now() + seconds(10));
    const Pipelines after = pipelines();
    for (const auto& [epoch, nodes] : before) {
      const auto same = after.find(epoch);
      if (same == after.end() || same->second != nodes) {
        client_.violation("a joiner changed the pipeline of epoch " + std::to_string(epoch));
      }
    }
    check_idle("after nodes came");
  }

  // A replica of some range goes for good, while its pipeline serves.
  void check_stand_in() {
    const Pipelines before = pipelines();
    for (int i = 0; i < 60; ++i) client_.submit(*coordinator_);
    world_.run_until(world_.now() + milliseconds(3));
    std::string lost;
    for (const auto& pipeline : coordinator_->status().pipelines) {
      if (pipeline.running > 0) lost = pipeline.nodes[world_.between(0, pipeline.nodes.size() - 1)];
    }
    if (lost.empty()) return client_.violation("no pipeline has anything to do");
    world_.trace("loss of " + lost);
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      if (machines_[i].name == lost) workers_[i].reset();
    }
    world_.run_until(world_.now() + seconds(10));
    const Pipelines after = pipelines();
    if (after.size() + 1 < before.size()) client_.violation("one loss took two pipelines");
    for (const auto& [epoch, nodes] : after) {
      if (std::count(nodes.begin(), nodes.end(), lost) > 0) client_.violation("a lost node serves");
    }
    check_idle("after a loss");
  }

  SimWorld world_;
  EnginePool& pool_;
  SimNetwork network_;
  SimClient client_;
  SimTransport control_;
  SimTransport data_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  const double slowness_;
  std::vector<Machine> machines_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::set<std::size_t> frozen_;
  std::uint32_t incarnation_ = 0;
  std::uint32_t streams_wanted_ = 0;
  TimePoint end_of_turmoil_{};
  ManyOutcome outcome_;
};

}  // namespace

ManyOutcome run_many_nodes(std::uint64_t seed, EnginePool& pool, const Reference& reference,
                           bool print) {
  ManySwarm swarm(seed, pool, reference, 1.0, print);
  ManyOutcome outcome = swarm.run();
  outcome.seed = seed;
  return outcome;
}

Served serve_many(std::uint64_t seed, EnginePool& pool, const Reference& reference) {
  return ManySwarm(seed, pool, reference, 20.0, false).serve();
}

}  // namespace hearth::sim

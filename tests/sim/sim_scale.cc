#include "tests/sim/sim_scale.h"

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/crypto.h"
#include "base/limits.h"
#include "base/random.h"
#include "coordinator/coordinator.h"
#include "coordinator/scheduling/scheduler.h"
#include "placement/ranges.h"
#include "proto/control.pb.h"
#include "tests/sim/sim_transport.h"
#include "tests/sim/sim_world.h"

namespace hearth::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kBatchRows = 16;  // as placement::Problem has it
constexpr double kSlowness = 200.0;       // stages of 20 ms a layer and more
constexpr Duration kFormed = seconds(90);
constexpr Duration kTick = milliseconds(20);  // as cli/process/loop.cc
// A machine reads the weights of its layers from the disk.
constexpr std::uint64_t kLoadLeast = 5'000'000;  // microseconds
constexpr std::uint64_t kLoadMost = 20'000'000;

class Stopwatch {
 public:
  explicit Stopwatch(Cost& cost) : cost_(cost), began_(processor_time()) {}
  ~Stopwatch() {
    const std::int64_t took = processor_time() - began_;
    cost_.nanoseconds.push_back(
        static_cast<std::uint32_t>(std::min<std::int64_t>(took, UINT32_MAX)));
  }

 private:
  // Of this thread: other programs do not count.
  static std::int64_t processor_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  Cost& cost_;
  std::int64_t began_;
};

// Times what the coordinator does with each event of a transport.
class TimedTransport final : public Transport, public TransportEvents {
 public:
  TimedTransport(Transport& inner, CellOutcome& outcome) : inner_(inner), outcome_(outcome) {
    inner.set_events(this);
  }
  void set_events(TransportEvents* events) override { events_ = events; }
  LinkId connect(std::string_view address) override { return inner_.connect(address); }
  Status send(LinkId link, Frame&& frame) override { return inner_.send(link, std::move(frame)); }
  void close(LinkId link) override { inner_.close(link); }
  std::optional<RosterEntry> peer(LinkId link) const override { return inner_.peer(link); }
  std::string host(LinkId link) const override { return inner_.host(link); }
  std::string address() const override { return inner_.address(); }

  void on_link_open(LinkId link, bool incoming) override {
    const Stopwatch watch(outcome_.messages);
    events_->on_link_open(link, incoming);
  }
  void on_frame(LinkId link, Frame frame) override {
    const bool beat = is_heartbeat(frame);
    const Stopwatch watch(beat ? outcome_.heartbeats : outcome_.messages);
    events_->on_frame(link, std::move(frame));
  }
  void on_link_closed(LinkId link, const Error& why) override {
    const Stopwatch watch(outcome_.messages);
    events_->on_link_closed(link, why);
  }

 private:
  static bool is_heartbeat(const Frame& frame) {
    control::v1::WorkerMessage message;
    return frame.type == FrameType::kControl &&
           message.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size())) &&
           message.has_heartbeat();
  }

  Transport& inner_;
  CellOutcome& outcome_;
  TransportEvents* events_ = nullptr;
};

coordinator::CoordinatorOptions options_of(const EnginePool& pool, SimWorld& world) {
  coordinator::CoordinatorOptions options = many_options(pool);
  options.placement->elsewhere = [&world](std::function<void()> work) {
    world.after(seconds(1), std::move(work));
  };
  options.batch_rows = kBatchRows;
  options.forming_timeout = seconds(60);  // a stage is read from the disk
  return options;
}

struct Ignored final : coordinator::SequenceEvents {
  explicit Ignored(std::uint64_t& failed) : failed_(failed) {}
  void on_admitted() override {}
  void on_token(const SampledToken&) override {}
  void on_hashes(std::vector<RowHash>) override {}
  void on_error(const Error&) override { ++failed_; }
  std::uint64_t& failed_;
};

class Cell {
 public:
  Cell(std::uint64_t seed, const CellOptions& options, EnginePool& pool)
      : options_(options),
        world_(seed, false),
        pool_(pool),
        network_(world_, {}),
        inner_control_(network_, world_, "coordinator", kControlAddress),
        inner_data_(network_, world_, "coordinator", "coordinator:data"),
        control_(inner_control_, outcome_),
        data_(inner_data_, outcome_),
        coordinator_(coordinator::Coordinator::start(options_of(pool, world_), world_,
                                                     world_.random(), control_, data_)) {
    for (std::uint32_t i = 0; i < options.nodes; ++i) join();
    tick();
  }

  CellOutcome run() {
    settle();
    outcome_.nodes = options_.nodes;
    const auto plan = placement::plan_ranges(problem_of(present()));
    if (plan.ok()) {
      outcome_.bound = plan->bound;
      outcome_.planned = plan->prediction.all_tokens_per_second;
    }
    streams_wanted_ = 0;
    for (const auto& pipeline : coordinator_->status().pipelines) {
      if (pipeline.state != "serving") continue;
      ++outcome_.pipelines;
      streams_wanted_ += kBatchRows * static_cast<std::uint32_t>(pipeline.nodes.size() + 1);
    }
    keep_busy();
    world_.run_until(world_.now() + seconds(20));
    forget_costs();
    outcome_.quiet = tokens_a_second(options_.quiet);
    next_leave();
    if (options_.churn > 0) outcome_.churned = tokens_a_second(options_.churn);
    outcome_.simulated_seconds = options_.quiet + options_.churn;
    outcome_.resumed = coordinator_->status().resumed_total;
    const std::size_t before = mallinfo2().uordblks;
    coordinator_.reset();
    outcome_.bytes = before - mallinfo2().uordblks;
    return std::move(outcome_);
  }

 private:
  std::vector<Machine> present() const {
    std::vector<Machine> all;
    for (const auto& [number, one] : machines_) all.push_back(one.machine);
    return all;
  }

  void join() {
    const std::uint32_t number = next_machine_++;
    Placed& placed = machines_[number];
    placed.machine = unlike_machine(world_, number, kSlowness);
    placed.process =
        std::make_unique<WorkerProcess>(network_, world_, pool_, placed.machine, number + 1);
    placed.process->compute.set_load_time(
        [this] { return world_.microseconds(kLoadLeast, kLoadMost); });
  }

  void tick() {
    if (coordinator_) {
      const Stopwatch watch(outcome_.timer);
      coordinator_->on_timer();
    }
    for (const auto& [number, placed] : machines_) placed.process->stage->on_timer();
    network_.on_timer();
    world_.after(kTick, [this] { tick(); });
  }

  std::size_t serving() const {
    const auto status = coordinator_->status();
    return static_cast<std::size_t>(std::ranges::count_if(
        status.pipelines, [](const auto& pipeline) { return pipeline.state == "serving"; }));
  }

  // Until no pipeline was added for a while.
  void settle() {
    const TimePoint end = world_.now() + kFormed;
    while (world_.now() < end) world_.run_until(world_.now() + seconds(1));
    if (serving() == 0) {
      outcome_.violations.push_back("none formed: " + coordinator_->status().missing);
    }
  }

  void forget_costs() {
    for (Cost* cost :
         {&outcome_.heartbeats, &outcome_.messages, &outcome_.timer, &outcome_.submits}) {
      cost->nanoseconds.clear();
    }
  }

  double tokens_a_second(std::uint32_t how_long) {
    const std::uint64_t before = coordinator_->status().generation_tokens_total;
    world_.run_until(world_.now() + seconds(how_long));
    const std::uint64_t after = coordinator_->status().generation_tokens_total;
    return static_cast<double>(after - before) / how_long;
  }

  void keep_busy() {
    if (!coordinator_) return;
    const auto status = coordinator_->status();
    for (std::uint32_t i = status.running + status.waiting; i < streams_wanted_; ++i) {
      coordinator::GenerateRequest request;
      for (int token = 0; token < 4; ++token) {
        request.prompt.push_back(static_cast<TokenId>(world_.between(0, 299)));
      }
      request.sampling.max_tokens = static_cast<std::uint32_t>(world_.between(20, 120));
      request.policy.owner = "key" + std::to_string(world_.between(1, 50));
      const Stopwatch watch(outcome_.submits);
      auto events = std::make_shared<Ignored>(outcome_.failed);
      if (!coordinator_->submit(std::move(request), std::move(events)).ok()) break;
    }
    world_.after(milliseconds(200), [this] { keep_busy(); });
  }

  void next_leave() {
    const double each = options_.nodes * options_.percent_a_minute / 100.0 / 60.0;  // a second
    if (each <= 0.0 || machines_.empty()) return;
    auto gone = machines_.begin();
    std::advance(gone, static_cast<std::ptrdiff_t>(world_.between(0, machines_.size() - 1)));
    machines_.erase(gone);
    ++outcome_.left;
    join();
    ++outcome_.joined;
    world_.after(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1.0 / each)),
                 [this] { next_leave(); });
  }

  struct Placed {
    Machine machine;
    std::unique_ptr<WorkerProcess> process;
  };

  const CellOptions options_;
  CellOutcome outcome_;
  SimWorld world_;
  EnginePool& pool_;
  SimNetwork network_;
  SimTransport inner_control_;
  SimTransport inner_data_;
  TimedTransport control_;
  TimedTransport data_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::map<std::uint32_t, Placed> machines_;
  std::uint32_t next_machine_ = 0;
  std::uint32_t streams_wanted_ = 0;
};

// The schedulers of a front end and its cells. The front end knows a cell as one pipeline with the
// pages of all.
class Cells {
 public:
  explicit Cells(std::uint64_t seed, std::uint32_t nodes)
      : random_(seed), cells_((nodes + kCellNodes - 1) / kCellNodes) {
    std::uint64_t epoch = 0;
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
      const auto pipelines = std::min(nodes, kCellNodes) / kPipelineNodes;
      front_.add_pool(Epoch(cell + 1), pipelines * kPipelinePages, kPageTokens, {});
      for (std::uint32_t i = 0; i < pipelines; ++i) {
        cells_[cell].add_pool(Epoch(++epoch), kPipelinePages, kPageTokens, {});
      }
    }
  }

  // So many requests, each of which takes the place of the oldest; before, `running` others.
  Cost route(std::size_t running, std::size_t requests) {
    Cost cost;
    for (std::size_t i = 0; i < running + requests; ++i) {
      if (i >= running) end_oldest();
      if (i == running) cost.nanoseconds.clear();
      Running one{sequence(), nullptr, 0};
      const Stopwatch watch(cost);
      const Status taken = front_.enqueue(one.there);
      const auto admitted = taken.ok() ? front_.admit() : nullptr;
      INVARIANT(admitted == one.there, "there is room for the next request");
      one.cell = admitted->epoch.value - 1;
      one.here = std::make_shared<coordinator::Sequence>(*one.there);  // with its chain
      one.here->admitted = one.here->charged = false;
      coordinator::Scheduler& cell = cells_[one.cell];
      const Status passed = cell.enqueue(one.here);
      INVARIANT(passed.ok() && cell.admit() == one.here,
                "a cell has the room that it is known for");
      running_.push_back(std::move(one));
    }
    return cost;
  }

 private:
  static constexpr std::uint32_t kCellNodes = limits::kWorkers;
  static constexpr std::uint32_t kPipelineNodes = 4;
  static constexpr std::uint32_t kPipelinePages = 4096;
  static constexpr std::uint32_t kPageTokens = 32;
  static constexpr std::uint32_t kPrompt = 1'000;
  static constexpr std::uint64_t kBeginnings = 500;  // system prompts, and chats that go on

  struct Running {
    std::shared_ptr<coordinator::Sequence> there;  // in the front end
    std::shared_ptr<coordinator::Sequence> here;   // in its cell
    std::size_t cell;
  };

  std::shared_ptr<coordinator::Sequence> sequence() {
    auto one = std::make_shared<coordinator::Sequence>();
    one->id = SequenceId(++next_id_);
    const std::uint64_t beginning = random_.next() % kBeginnings;
    for (std::uint32_t i = 0; i < kPrompt; ++i) {
      const bool shared = i < kPrompt * 3 / 4;
      const std::uint64_t token = shared ? beginning * 7919 + i : random_.next();
      one->request.prompt.push_back(static_cast<TokenId>(token % 50'000));
    }
    one->prompt_tokens = kPrompt;
    one->request.sampling.max_tokens = 500;
    one->request.policy.owner = "key" + std::to_string(beginning % 50);
    one->scope = blake2b(as_bytes(one->request.policy.owner));
    return one;
  }

  void end_oldest() {
    const Running one = std::move(running_.front());
    running_.pop_front();
    for (const bool front : {true, false}) {
      coordinator::Scheduler& scheduler = front ? front_ : cells_[one.cell];
      const auto& sequence = front ? one.there : one.here;
      scheduler.release(*sequence);
      scheduler.end(*sequence);
    }
  }

  SeededRandom random_;
  coordinator::Scheduler front_;
  std::vector<coordinator::Scheduler> cells_;
  std::deque<Running> running_;
  std::uint64_t next_id_ = 0;
};

}  // namespace

double Cost::total_seconds() const {
  return std::accumulate(nanoseconds.begin(), nanoseconds.end(), 0.0) / 1e9;
}

double Cost::microseconds(double share) {
  if (nanoseconds.empty()) return 0.0;
  std::ranges::sort(nanoseconds);
  const auto at = static_cast<std::size_t>(share * static_cast<double>(nanoseconds.size()));
  return nanoseconds[std::min(at, nanoseconds.size() - 1)] / 1e3;
}

double Cost::mean_microseconds() const {
  return nanoseconds.empty() ? 0.0
                             : total_seconds() * 1e6 / static_cast<double>(nanoseconds.size());
}

Cost route_requests(std::uint64_t seed, std::uint32_t nodes, std::uint32_t requests) {
  return Cells(seed, nodes).route(nodes, requests);
}

CellOutcome run_cell(std::uint64_t seed, const CellOptions& options, EnginePool& pool) {
  return Cell(seed, options, pool).run();
}

}  // namespace hearth::sim

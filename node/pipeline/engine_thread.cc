#include "node/pipeline/engine_thread.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/thread_annotations.h"
#include "node/engine/device.h"
#include "node/engine/ranks/share.h"
#include "node/engine/stage_memory.h"
#include "proto/step.h"

namespace hearth::node {
namespace {

// A step of one row that last took no longer than this is computed on the main thread. Waking the
// engine's thread and being woken by it costs every hop of a lone stream 30 to 100 us. The main
// thread answers no message meanwhile, so a step must be short; beside a longer step that cost does
// not matter.
constexpr Duration kShort = std::chrono::milliseconds(10);

struct LoadTask {
  Epoch epoch;
  LayerRange layers;
  std::uint32_t stage = 0;
  std::uint32_t batch_rows = 0;
  std::uint64_t unloads = 0;  // asked for before
  std::vector<AssignedRank> group = {};
  std::uint32_t rank = 0;
  std::uint64_t leaves = 0;  // asked for before, unloads among them
};

// What the ranks of a group tell each other before they load. Two ranks with the same mark have
// taken the same steps, and so have the same kept pages.
struct GroupOffer {
  std::uint64_t epoch = 0;  // the mark: of the last group that was complete; 0: nothing is kept
  std::uint64_t steps = 0;  // the number after the last step in it
  std::uint64_t replay_bytes = 0;  // that the loaded engine has, or that the memory allows
  std::uint32_t pages = 0;         // likewise, and the KV budget
  std::uint32_t reserved = 0;
  Hash256 program;  // ranks of one program decide alike
};
static_assert(sizeof(GroupOffer) == 64, "an offer has no gap, so that its bytes are its fields");

// A step that the engine has begun, or that it will not compute: the error is its answer.
struct Begun {
  StepBatch batch;
  Status status;
};

struct Computed {
  StepBatch batch;
  StepResult result;
  Status status;
};

}  // namespace

struct EngineThread::State : std::enable_shared_from_this<State> {
  struct Task {
    std::function<void(State&)> work;  // empty: a step
    StepBatch batch = {};
    std::uint64_t generation = 0;  // loads and unloadings asked for before this step
    bool refused = false;          // the queue was full; kept for the order of the answers
  };

  void run();
  bool may_take() const REQUIRES_LOCK(mutex);
  bool may_lend(const StepBatch& batch) const REQUIRES_LOCK(mutex);
  void take(Task task);
  Result<StageComputeEvents::Loaded> load(const LoadTask& task);
  StageComputeEvents::Loaded answer() const;
  Result<std::unique_ptr<Engine>> make(const LoadTask& task, const RankGroup* of,
                                       std::uint64_t replay_bytes);
  Result<StageComputeEvents::Loaded> load_rank(const LoadTask& task);
  Result<GroupOffer> offer(const LoadTask& task, const std::vector<Share>& shares) const;
  Result<GroupOffer> agree_on(const LoadTask& task, const GroupOffer& own);
  void leave_group();
  // Ends the group between two steps: the engine stays.
  void end_group(const Error& why);
  // The same after a step that failed: the engine stopped in its middle, and is freed.
  void lose_group(const Error& why);
  bool has_share() const { return !loaded.group.empty(); }
  bool follows() const { return joined && loaded.rank > 0; }
  void follow();
  Status follow(const Bytes& payload);
  Result<StepBatch> read_batch(const Bytes& payload) const;
  Status begin(Task& task);
  bool ready() const { return !begun.front().status.ok() || engine->ready(); }
  Computed finished();
  void finish();
  void compute_here(Task task);
  void to_owner(std::function<void(StageComputeEvents&)> answer);
  void push(Task task);
  void push_load(LoadTask task);

  EngineOptions base;
  Load make_engine;
  Ranks ranks;

  Mutex mutex;
  CondVar wake;
  std::deque<Task> tasks GUARDED_BY(mutex);
  bool stopping GUARDED_BY(mutex) = false;
  bool sleeps GUARDED_BY(mutex) = false;     // the engine's thread, until a task is pushed
  Post post GUARDED_BY(mutex);               // empty once the owner is gone
  std::size_t posted GUARDED_BY(mutex) = 0;  // answers that the owner has not received yet
  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::uint64_t> unloads{0};
  std::atomic<std::uint64_t> leaves{0};  // of groups, unloads among them

  // The main thread only.
  StageComputeEvents* events = nullptr;

  // The engine's thread only; while that sleeps, the owner's, which alone pushes.
  std::unique_ptr<Engine> engine;
  LoadTask loaded;
  bool joined = false;                  // the links of that group are open
  RankGroup group;                      // of the engine, where `loaded` has one
  std::uint64_t group_replay = 0;       // likewise, options.replay_bytes
  GroupOffer mark;                      // of the engine's state
  bool distrusted = false;              // the next load drops the kept pages
  std::deque<Begun> begun;              // oldest first
  TimePoint begun_at{};                 // the latest
  Duration row_took = Duration::max();  // the last step of one row

  std::thread thread;
};

// Takes the next step while the engine computes one, if it can begin; else finishes the oldest step
// first. Without any step under way this thread sleeps until a task comes. While a step is under
// way and no task waits, it polls the engine, as a driver does that waits for its GPU: sleeping
// would cost each step more than its own time.
void EngineThread::State::run() {
  MutexLock lock(mutex);
  while (true) {
    if (begun.empty()) {
      while (!stopping && tasks.empty() && follows()) {
        lock.unlock();
        follow();
        lock.lock();
      }
      sleeps = true;
      while (!stopping && tasks.empty() && !follows()) wake.wait(mutex);
      sleeps = false;
      if (tasks.empty() && !stopping) continue;
    }
    if (stopping) break;
    if (may_take()) {
      Task task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      take(std::move(task));
    } else {
      const bool waits = !tasks.empty();
      lock.unlock();
      if (waits || ready()) {
        finish();
      } else {
        std::this_thread::yield();
      }
    }
    lock.lock();
  }
  lock.unlock();
  while (!begun.empty()) finish();
}

// No step begins after one that is only refused, so that the refusal does not wait.
bool EngineThread::State::may_take() const {
  if (tasks.empty()) return false;
  if (begun.empty()) return true;
  const Task& next = tasks.front();
  return !next.work && begun.back().status.ok() && engine->can_begin(next.batch);
}

// Only with no unanswered request. Pinned threads compute where they are pinned, and a GPU needs
// the thread that loaded it.
bool EngineThread::State::may_lend(const StepBatch& batch) const {
  return sleeps && tasks.empty() && posted == 0 && engine != nullptr && batch.rows.size() == 1 &&
         row_took <= kShort && !base.pin && base.device == nullptr && !has_share();
}

void EngineThread::State::take(Task task) {
  if (task.work) return task.work(*this);
  begun_at = SystemClock().now();
  Status status = begin(task);
  begun.push_back({std::move(task.batch), std::move(status)});
}

StageComputeEvents::Loaded EngineThread::State::answer() const {
  return {engine->input_shape(), engine->kv_pages(), engine->weight_bytes(), engine->sequences()};
}

Result<std::unique_ptr<Engine>> EngineThread::State::make(const LoadTask& task, const RankGroup* of,
                                                          std::uint64_t replay_bytes) {
  EngineOptions options = base;
  options.replay_bytes = replay_bytes;
  options.layers = task.layers;
  options.stage = task.stage;
  options.batch_rows = task.batch_rows;
  options.group = of;
  options.cancelled = [this, of, asked = task.unloads, left = task.leaves] {
    return unloads != asked || (of != nullptr && leaves != left);
  };
  return make_engine(options);
}

Result<StageComputeEvents::Loaded> EngineThread::State::load(const LoadTask& task) {
  joined = false;
  if (!task.group.empty()) return load_rank(task);
  if (ranks.links != nullptr) ranks.links->leave();
  const bool same = engine != nullptr && loaded.layers == task.layers &&
                    loaded.stage == task.stage && loaded.batch_rows == task.batch_rows &&
                    !has_share();
  const bool drops = std::exchange(distrusted, false);
  if (same) {
    drops ? engine->reset() : engine->keep();
  } else {
    engine.reset();  // two ranges at once may not fit the memory
    loaded = {};
    TRY(engine, make(task, nullptr, base.replay_bytes));
    loaded = task;
  }
  return answer();
}

// --- ranks ---

// What the memory of this rank holds beside its share.
Result<GroupOffer> EngineThread::State::offer(const LoadTask& task,
                                              const std::vector<Share>& shares) const {
  const model::ModelSpec own = narrowed(ranks.spec, shares[task.rank]);
  EngineOptions options = base;
  options.layers = task.layers;
  options.batch_rows = task.batch_rows;
  GroupOffer out;
  out.replay_bytes = base.replay_bytes;
  out.pages = std::numeric_limits<std::uint32_t>::max();
  if (own.kv_heads > 0) {
    TRY(const KvShare kv, kv_asked(own, options));
    out.pages = kv.pages;
  }
  if (ranks.file == nullptr) return out;
  const RankGroup wanted{shares, task.rank, nullptr, out.pages};
  options.group = &wanted;
  if (base.device != nullptr) {
    TRY(const StageMemory stage, base.device->memory(*ranks.file, ranks.spec, options));
    TRY(const std::uint64_t room, base.device->budget());
    out.pages = kv_within(stage, room).pages;
    return out;
  }
  TRY(const StageMemory stage, stage_memory(*ranks.file, ranks.spec, options));
  std::uint64_t budget = memory_budget(base.memory_bytes);
  // The engine of before is freed first.
  if (base.memory_bytes == 0 && engine != nullptr) budget += engine->weight_bytes();
  budget -= std::min(budget, kProcessBytes);
  out.pages = kv_within(stage, budget).pages;
  const std::uint64_t taken = stage.weights + stage.buffers + stage.page * out.pages;
  out.replay_bytes = std::min(out.replay_bytes, budget - std::min(budget, taken));
  return out;
}

// The least of all offers, and the mark if all have the same.
Result<GroupOffer> EngineThread::State::agree_on(const LoadTask& task, const GroupOffer& own) {
  std::vector<GroupOffer> offers(task.group.size());
  std::vector<ByteSpan> out(offers.size());
  std::vector<MutableByteSpan> in(offers.size());
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (rank == task.rank) continue;
    out[rank] = std::as_bytes(std::span(&own, 1));
    in[rank] = std::as_writable_bytes(std::span(&offers[rank], 1));
  }
  offers[task.rank] = own;
  TRY_VOID(ranks.links->swap(out, in));
  GroupOffer agreed = own;
  for (std::uint32_t rank = 0; rank < offers.size(); ++rank) {
    const GroupOffer& one = offers[rank];
    if (one.program != own.program) {
      return ranks.links->blame(rank,
                                "has another build than this rank, and may decide otherwise; "
                                "install the same version on all workers of the group");
    }
    if (one.pages == 0) {
      const std::string why =
          "has no memory for a KV page beside its share; use more workers or stages";
      if (rank != task.rank) return ranks.links->blame(rank, why);
      return Error{ErrorCode::kNoCapacity, "this rank " + why};
    }
    agreed.pages = std::min(agreed.pages, one.pages);
    agreed.replay_bytes = std::min(agreed.replay_bytes, one.replay_bytes);
    if (one.epoch != own.epoch || one.steps != own.steps) agreed.epoch = 0;
  }
  return agreed;
}

Result<StageComputeEvents::Loaded> EngineThread::State::load_rank(const LoadTask& task) {
  std::vector<std::uint32_t> parts;
  Assignment assignment;
  assignment.epoch = task.epoch;
  assignment.group = task.group;
  assignment.rank = task.rank;
  for (const AssignedRank& rank : task.group) parts.push_back(rank.part);
  TRY(std::vector<Share> shares, divide(ranks.spec, parts));
  const bool same = engine != nullptr && loaded.layers == task.layers &&
                    loaded.stage == task.stage && loaded.batch_rows == task.batch_rows &&
                    has_share() && loaded.rank == task.rank && group.shares == shares;
  TRY_VOID(ranks.links->join(
      assignment, [this, asked = task.unloads] { return unloads != asked; },
      [this, asked = task.leaves] { return leaves != asked; }));
  GroupOffer own = mark;
  if (same) {
    own.pages = engine->kv_pages();
    own.replay_bytes = group_replay;
  } else {
    TRY(own, offer(task, shares));
  }
  own.program = ranks.program;
  TRY(const GroupOffer agreed, agree_on(task, own));
  mark = {};
  if (same && engine->kv_pages() == agreed.pages && group_replay == agreed.replay_bytes) {
    agreed.epoch != 0 ? engine->keep() : engine->reset();
  } else {
    engine.reset();
    loaded = {};
    group = {std::move(shares), task.rank, ranks.links.get(), agreed.pages};
    group_replay = agreed.replay_bytes;
    TRY(engine, make(task, &group, group_replay));
  }
  loaded = task;
  joined = true;
  mark.epoch = task.epoch.value;
  return answer();
}

void EngineThread::State::leave_group() {
  joined = false;
  if (ranks.links != nullptr) ranks.links->leave();
  if (engine != nullptr) engine->keep();
}

void EngineThread::State::end_group(const Error& why) {
  to_owner([epoch = loaded.epoch, text = why.message, peer = ranks.links->culprit()](
               StageComputeEvents& events) { events.on_group_lost(epoch, text, peer); });
  joined = false;
  ranks.links->leave();
}

void EngineThread::State::lose_group(const Error& why) {
  end_group(why);
  engine.reset();
  loaded = {};
  mark = {};
}

void EngineThread::State::follow() {
  const auto payload = ranks.links->next_batch();
  if (!payload.ok()) return end_group(payload.error());
  if (!*payload) return;
  const Status done = follow(**payload);
  if (!done.ok()) lose_group(done.error());
}

Result<StepBatch> EngineThread::State::read_batch(const Bytes& payload) const {
  TRY(StepBatch batch, decode_step_batch(payload, engine->input_shape()));
  REQUIRE(batch.epoch == loaded.epoch && batch.rows.size() <= loaded.batch_rows, "sent a batch of ",
          batch.rows.size(), " rows of epoch ", batch.epoch.value, "; expected at most ",
          loaded.batch_rows, " rows of epoch ", loaded.epoch.value);
  REQUIRE(batch.boundary == loaded.layers.begin, "sent a batch of layer ", batch.boundary,
          "; this stage begins at layer ", loaded.layers.begin);
  return batch;
}

Status EngineThread::State::follow(const Bytes& payload) {
  const TimePoint begin = SystemClock().now();
  auto decoded = read_batch(payload);
  if (!decoded.ok()) return ranks.links->blame(0, decoded.error().message);
  StepBatch batch = *std::move(decoded);
  StepResult result;
  TRY_VOID(engine->step(batch, result));
  mark.steps = batch.step.value + 1;
  batch.activations = {};
  result.input = {};
  to_owner([batch = std::move(batch), result = std::move(result),
            took = SystemClock().now() - begin](StageComputeEvents& events) {
    events.on_followed(batch, result, took);
  });
  return ok_status();
}

// --- steps ---

Status EngineThread::State::begin(Task& task) {
  if (task.refused) {
    return Error::of(ErrorCode::kNoCapacity, limits::kComputeQueue,
                     " steps wait here, which is the limit");
  }
  if (task.generation != generation.load(std::memory_order_relaxed)) {
    return Error{ErrorCode::kCancelled, "the step belongs to an assignment that ended"};
  }
  if (engine == nullptr) return Error{ErrorCode::kUnavailable, "no layers are loaded"};
  if (!has_share()) return engine->begin(task.batch);
  if (!joined) return Error{ErrorCode::kUnavailable, "the group of this rank has ended"};
  const Status sent = ranks.links->send_batch(encode(task.batch));
  if (!sent.ok()) {
    end_group(sent.error());
    return sent;
  }
  Status begun = engine->begin(task.batch);
  if (!begun.ok()) lose_group(begun.error());
  return begun;
}

void EngineThread::State::finish() {
  to_owner([answer = finished()](StageComputeEvents& events) mutable {
    events.on_computed(std::move(answer.batch), std::move(answer.result), std::move(answer.status));
  });
}

// A stage that is first and last posts its answer: the answer leads to the next step, and without
// the post no other task of the main thread would have a turn in between.
void EngineThread::State::compute_here(Task task) {
  take(std::move(task));
  if (engine->is_first() && engine->is_last()) return finish();
  Computed one = finished();
  if (events != nullptr) {
    events->on_computed(std::move(one.batch), std::move(one.result), std::move(one.status));
  }
}

Computed EngineThread::State::finished() {
  INVARIANT(!begun.empty(), "a step is finished after its begin");
  Computed one{std::move(begun.front().batch), {}, std::move(begun.front().status)};
  begun.pop_front();
  INVARIANT(!one.status.ok() || engine != nullptr, "the engine outlives the steps that it began");
  if (one.status.ok()) {
    const StepId step = one.batch.step;
    one.status = engine->finish(one.batch, one.result);
    if (joined && !one.status.ok()) lose_group(one.status.error());
    if (joined) mark.steps = step.value + 1;
  }
  if (one.batch.rows.size() == 1 && begun.empty()) row_took = SystemClock().now() - begun_at;
  return one;
}

void EngineThread::State::to_owner(std::function<void(StageComputeEvents&)> answer) {
  const MutexLock lock(mutex);
  if (!post) return;
  ++posted;
  post([self = shared_from_this(), answer = std::move(answer)] {
    {
      const MutexLock one(self->mutex);
      INVARIANT(self->posted > 0, "every answer is received once");
      --self->posted;
    }
    if (self->events != nullptr) answer(*self->events);
  });
}

void EngineThread::State::push(Task task) {
  const MutexLock lock(mutex);
  if (!task.work && tasks.size() >= limits::kComputeQueue) {
    task.refused = true;
    task.batch.activations = {};
    task.batch.rows = {};
  }
  tasks.push_back(std::move(task));
  wake.notify_one();
  if (ranks.links != nullptr) ranks.links->wake();
}

void EngineThread::State::push_load(LoadTask load_task) {
  push({[task = std::move(load_task)](State& state) {
    auto answer = state.load(task);
    const std::string peer = state.ranks.links != nullptr ? state.ranks.links->culprit() : "";
    // The others of the group need not wait for a rank that has no share.
    if (!answer.ok() && state.ranks.links != nullptr) state.ranks.links->leave();
    state.to_owner(
        [epoch = task.epoch, answer = std::move(answer), peer](StageComputeEvents& events) mutable {
          if (!answer.ok() && !peer.empty())
            events.on_group_lost(epoch, answer.error().message, peer);
          events.on_loaded(epoch, std::move(answer));
        });
  }});
}

EngineThread::EngineThread(EngineOptions base, Load load, Post post, Ranks ranks)
    : state_(std::make_shared<State>()) {
  state_->base = base;
  state_->ranks = std::move(ranks);
  state_->make_engine = std::move(load);
  state_->post = std::move(post);
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

EngineThread::~EngineThread() {
  state_->events = nullptr;
  {
    const MutexLock lock(state_->mutex);
    state_->stopping = true;
    state_->post = nullptr;
    state_->wake.notify_one();
    ++state_->leaves;
    if (state_->ranks.links != nullptr) state_->ranks.links->wake();
  }
  state_->thread.join();
  state_->engine.reset();
}

void EngineThread::set_events(StageComputeEvents* events) { state_->events = events; }

void EngineThread::load(Epoch epoch, LayerRange layers, std::uint32_t stage,
                        std::uint32_t batch_rows) {
  state_->generation.fetch_add(1, std::memory_order_relaxed);
  ++state_->leaves;
  LoadTask task{epoch, layers, stage, batch_rows, state_->unloads};
  state_->push_load(std::move(task));
}

void EngineThread::load_rank(const Assignment& assignment) {
  INVARIANT(state_->ranks.links != nullptr, "only a worker with a rank's address gets a group");
  state_->generation.fetch_add(1, std::memory_order_relaxed);
  LoadTask task{assignment.epoch, assignment.layers, assignment.stage, assignment.batch_rows,
                state_->unloads};
  task.group = assignment.group;
  task.rank = assignment.rank;
  task.leaves = ++state_->leaves;
  state_->push_load(std::move(task));
}

void EngineThread::leave() {
  state_->generation.fetch_add(1, std::memory_order_relaxed);
  ++state_->leaves;
  state_->push({[](State& state) { state.leave_group(); }});
}

void EngineThread::compute(StepBatch batch) {
  State::Task task;
  task.batch = std::move(batch);
  task.generation = state_->generation.load(std::memory_order_relaxed);
  bool lent = false;
  {
    const MutexLock lock(state_->mutex);
    lent = state_->may_lend(task.batch);
  }
  if (lent) {
    state_->compute_here(std::move(task));
  } else {
    state_->push(std::move(task));
  }
}

void EngineThread::forget() {
  state_->push({[](State& state) {
    if (state.engine != nullptr) state.engine->reset();
    state.mark = {};
  }});
}

// The mark makes every rank of a group drop what it kept.
void EngineThread::distrust() {
  state_->push({[](State& state) {
    state.distrusted = true;
    state.mark = {};
  }});
}

void EngineThread::check_weights() {
  state_->push({[](State& state) {
    Status status = state.engine != nullptr
                        ? state.engine->verify_weights()
                        : Status(Error{ErrorCode::kUnavailable, "no layers are loaded"});
    state.to_owner([status = std::move(status)](auto& events) mutable {
      events.on_weights_checked(std::move(status));
    });
  }});
}

// Returns the freed memory to the system, because the allocator would keep much of it.
void EngineThread::unload() {
  state_->generation.fetch_add(1, std::memory_order_relaxed);
  ++state_->unloads;
  ++state_->leaves;
  state_->push({[](State& state) {
    if (state.ranks.links != nullptr) state.ranks.links->leave();
    state.joined = false;
    state.engine.reset();
    state.loaded = {};
    state.mark = {};
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    state.to_owner([](auto& events) { events.on_unloaded(); });
  }});
}

EngineThread::Load engine_loader(std::shared_ptr<const model::GgufFile> file,
                                 model::ModelSpec spec) {
  return [file = std::move(file), spec = std::move(spec)](const EngineOptions& options) {
    return Engine::load(file, spec, options);
  };
}

EngineThread::Load engine_loader(LayerStore& store, const Hash256& header, model::ModelSpec spec) {
  return [&store, header,
          spec = std::move(spec)](const EngineOptions& options) -> Result<std::unique_ptr<Engine>> {
    TRY(const std::string path, store.obtain(options.layers, options.cancelled));
    TRY(const auto file, model::GgufFile::open(path));
    REQUIRE(file->fingerprint() == header, path,
            " has changed: its header is not that of the model that this worker serves");
    return Engine::load(file, spec, options);
  };
}

}  // namespace hearth::node

#include "node/pipeline/engine_thread.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/thread_annotations.h"

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
};

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
  Status begin(Task& task);
  bool ready() const { return !begun.front().status.ok() || engine->ready(); }
  Computed finished();
  void finish();
  void compute_here(Task task);
  void to_owner(std::function<void(StageComputeEvents&)> answer);
  void push(Task task);

  EngineOptions base;
  Load make_engine;

  Mutex mutex;
  CondVar wake;
  std::deque<Task> tasks GUARDED_BY(mutex);
  bool stopping GUARDED_BY(mutex) = false;
  bool sleeps GUARDED_BY(mutex) = false;     // the engine's thread, until a task is pushed
  Post post GUARDED_BY(mutex);               // empty once the owner is gone
  std::size_t posted GUARDED_BY(mutex) = 0;  // answers that the owner has not received yet
  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::uint64_t> unloads{0};

  // The main thread only.
  StageComputeEvents* events = nullptr;

  // The engine's thread only; while that sleeps, the owner's, which alone pushes.
  std::unique_ptr<Engine> engine;
  LoadTask loaded;
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
      sleeps = true;
      while (!stopping && tasks.empty()) wake.wait(mutex);
      sleeps = false;
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
         row_took <= kShort && !base.pin && base.device == nullptr;
}

void EngineThread::State::take(Task task) {
  if (task.work) return task.work(*this);
  begun_at = SystemClock().now();
  Status status = begin(task);
  begun.push_back({std::move(task.batch), std::move(status)});
}

Result<StageComputeEvents::Loaded> EngineThread::State::load(const LoadTask& task) {
  const bool same = engine != nullptr && loaded.layers == task.layers &&
                    loaded.stage == task.stage && loaded.batch_rows == task.batch_rows;
  if (same) {
    engine->keep();
  } else {
    engine.reset();  // two ranges at once may not fit the memory
    EngineOptions options = base;
    options.layers = task.layers;
    options.stage = task.stage;
    options.batch_rows = task.batch_rows;
    options.cancelled = [this, asked = task.unloads] { return unloads != asked; };
    TRY(engine, make_engine(options));
    loaded = task;
  }
  return StageComputeEvents::Loaded{engine->input_shape(), engine->kv_pages(),
                                    engine->weight_bytes(), engine->sequences()};
}

Status EngineThread::State::begin(Task& task) {
  if (task.refused) {
    return Error::of(ErrorCode::kNoCapacity, limits::kComputeQueue,
                     " steps wait here, which is the limit");
  }
  if (task.generation != generation.load(std::memory_order_relaxed)) {
    return Error{ErrorCode::kCancelled, "the step belongs to an assignment that ended"};
  }
  if (engine == nullptr) return Error{ErrorCode::kUnavailable, "no layers are loaded"};
  return engine->begin(task.batch);
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
  if (one.status.ok()) one.status = engine->finish(one.batch, one.result);
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
}

EngineThread::EngineThread(EngineOptions base, Load load, Post post)
    : state_(std::make_shared<State>()) {
  state_->base = base;
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
  }
  state_->thread.join();
  state_->engine.reset();
}

void EngineThread::set_events(StageComputeEvents* events) { state_->events = events; }

void EngineThread::load(Epoch epoch, LayerRange layers, std::uint32_t stage,
                        std::uint32_t batch_rows) {
  state_->generation.fetch_add(1, std::memory_order_relaxed);
  const LoadTask task{epoch, layers, stage, batch_rows, state_->unloads};
  state_->push({[task](State& state) {
    state.to_owner([epoch = task.epoch, answer = state.load(task)](auto& events) mutable {
      events.on_loaded(epoch, std::move(answer));
    });
  }});
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
  state_->push({[](State& state) {
    state.engine.reset();
    state.loaded = {};
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

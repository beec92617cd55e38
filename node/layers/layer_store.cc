#include "node/layers/layer_store.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "node/layers/fetch_items.h"

namespace hearth::node {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kAskAgain = std::chrono::milliseconds(50);  // whether a wait was given up

bool within(LayerRange inner, LayerRange outer) {
  return inner.begin >= outer.begin && inner.end <= outer.end;
}

// What belongs to no layer, to no embedding and to no head: a model's shape is not known without it
// (rope_freqs.weight), and every stage has it.
std::vector<std::size_t> common_tensors(const model::Manifest& manifest) {
  std::vector<std::size_t> common;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const std::string& name = manifest.tensors[i].name;
    const bool end =
        name == "token_embd.weight" || name == "output.weight" || name == "output_norm.weight";
    if (!end && !name.starts_with("blk.")) common.push_back(i);
  }
  return common;
}

// Asking others may help where these were of no use.
bool try_elsewhere(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotFound;
}

}  // namespace

struct LayerStore::State {
  explicit State(LayerStoreOptions given) : options(std::move(given)) {}

  void run();
  Result<Fetched> bring(const HoldPlan& plan, std::uint64_t number);
  Result<Fetched> fetch(LayerRange layers, Sources sources, const std::function<bool()>& cancelled,
                        bool quiet = false);
  void settle(const HoldPlan& plan, const Result<Fetched>& fetched);
  Status keep(LayerRange layers, const Fetched& fetched);
  void plan_anew(HoldPlan plan);
  void report(LayerRange layers, std::uint64_t done, std::uint64_t total, bool quiet);
  void note(const WrongBytes& wrong);
  bool held(LayerRange layers) const { return have && within(layers, have->layers); }
  bool waits() const {
    return plan && !held(plan->layers) && !(failure && Clock::now() < retry_at);
  }

  const LayerStoreOptions options;
  const std::shared_ptr<SharedFile> shared = std::make_shared<SharedFile>();

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> plans{0};  // so many were made; the newest one counts
  std::optional<HoldPlan> plan;
  struct Have {
    LayerRange layers;
    std::string path;
    std::uint64_t bytes = 0;
  };
  std::optional<Have> have;
  std::optional<Error> failure;  // of the newest plan's last try
  std::uint64_t tries = 0;       // of all plans, that were seen to their end
  Clock::time_point retry_at{};
  Holding holding;
  std::vector<WrongBytes> wrong;  // and not yet taken
  std::thread thread;
};

void LayerStore::State::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    if (!waits()) {
      const bool later = plan && failure && !held(plan->layers);
      if (later && retry_at != Clock::time_point::max()) {
        changed.wait_until(lock, retry_at);
      } else {
        changed.wait(lock);
      }
      continue;
    }
    const HoldPlan now = *plan;
    const std::uint64_t number = plans;
    lock.unlock();
    const auto fetched = bring(now, number);
    lock.lock();
    if (number != plans || stopping) continue;  // others are wanted by now; what has come stays
    settle(now, fetched);
    changed.notify_all();
    lock.unlock();
    if (fetched.ok() && options.done) options.done(now, *fetched);
    if (!fetched.ok() && options.failed) options.failed(fetched.error());
    lock.lock();
  }
}

void LayerStore::State::settle(const HoldPlan& now, const Result<Fetched>& fetched) {
  Status kept = fetched.ok() ? keep(now.layers, *fetched) : Status(fetched.error());
  ++tries;
  failure.reset();
  if (kept.ok()) return;
  // Memory does not come back by waiting for it.
  const bool final = kept.error().code == ErrorCode::kNoCapacity;
  retry_at = final ? Clock::time_point::max() : Clock::now() + options.pause;
  failure = std::move(kept).error();
}

// With the mutex held.
Status LayerStore::State::keep(LayerRange layers, const Fetched& fetched) {
  TRY(const auto tensors, model::stage_tensors(options.manifest, layers));
  TRY(const auto items, fetch_items(options.manifest, tensors));
  TRY_VOID(shared->share(options.manifest.id(), fetched.path, ranges_of(items)));
  have = Have{layers, fetched.path, fetched.wanted};
  holding = {layers, fetched.wanted, fetched.wanted};
  return ok_status();
}

Result<Fetched> LayerStore::State::bring(const HoldPlan& now, std::uint64_t number) {
  TRY(const std::uint64_t bytes, bytes_of(options.manifest, now.layers));
  if (options.begin) TRY_VOID(options.begin(now, bytes));
  const auto cancelled = [this, number] { return stopping || number != plans; };
  Sources peers;
  if (options.peers) peers = options.peers(now.holders);
  auto fetched = fetch(now.layers, std::move(peers), cancelled);
  if (fetched.ok() || !try_elsewhere(fetched.error()) || !options.elsewhere) return fetched;
  TRY(Sources others, options.elsewhere());
  if (others.empty()) return fetched;
  return fetch(now.layers, std::move(others), cancelled);
}

Result<Fetched> LayerStore::State::fetch(LayerRange layers, Sources sources,
                                         const std::function<bool()>& cancelled, bool quiet) {
  TRY(const auto tensors, model::stage_tensors(options.manifest, layers));
  FetchOptions how = options.fetch;
  how.sources = std::move(sources);
  how.cancelled = cancelled;
  how.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (!cancelled()) report(layers, done, total, quiet);
  };
  how.wrong = [&](const WrongBytes& wrong) { note(wrong); };
  return fetch_tensors(options.manifest, tensors, how);
}

// Bytes that are here are not yet right: so it is never all of them before keep().
void LayerStore::State::report(LayerRange layers, std::uint64_t done, std::uint64_t total,
                               bool quiet) {
  const Holding now{layers, done < total ? done : total - 1, total};
  {
    const std::lock_guard lock(mutex);
    holding = now;
  }
  if (options.progress && !quiet) options.progress(now);
}

// Of a node one is enough.
void LayerStore::State::note(const WrongBytes& said) {
  const std::lock_guard lock(mutex);
  std::erase_if(wrong, [&](const WrongBytes& each) { return each.node == said.node; });
  if (wrong.size() < limits::kWrongBytesTold) wrong.push_back(said);
}

// With the mutex held.
void LayerStore::State::plan_anew(HoldPlan now) {
  const bool same = plan && plan->layers == now.layers;
  plan = std::move(now);
  failure.reset();
  if (!same) ++plans;
  if (held(plan->layers)) holding = {have->layers, have->bytes, have->bytes};
  changed.notify_all();
}

Result<std::uint64_t> bytes_of(const model::Manifest& manifest, LayerRange layers) {
  TRY(const auto tensors, model::stage_tensors(manifest, layers));
  std::uint64_t bytes = manifest.header_bytes;
  for (const std::size_t index : tensors) bytes += manifest.tensors[index].bytes;
  return bytes;
}

LayerStore::LayerStore(LayerStoreOptions options)
    : state_(std::make_unique<State>(std::move(options))) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

LayerStore::~LayerStore() {
  stop();
  state_->thread.join();
}

void LayerStore::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
}

Result<std::string> LayerStore::bring_header(const std::vector<Holder>& holders,
                                             const std::function<bool()>& cancelled) {
  const std::vector<std::size_t> common = common_tensors(state_->options.manifest);
  FetchOptions how = state_->options.fetch;
  how.cancelled = cancelled;
  how.wrong = [&](const WrongBytes& wrong) { state_->note(wrong); };
  if (state_->options.peers) how.sources = state_->options.peers(holders);
  auto fetched = fetch_tensors(state_->options.manifest, common, how);
  if (!fetched.ok() && try_elsewhere(fetched.error()) && state_->options.elsewhere) {
    TRY(how.sources, state_->options.elsewhere());
    if (!how.sources.empty()) fetched = fetch_tensors(state_->options.manifest, common, how);
  }
  TRY_VOID(fetched);
  return fetched->path;
}

void LayerStore::recall(LayerRange layers) {
  const auto stopped = [this] { return state_->stopping.load(); };
  const auto fetched = state_->fetch(layers, {}, stopped, true);
  if (!fetched.ok()) return;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->keep(layers, *fetched).ok()) return;
  }
  if (state_->options.done) state_->options.done({layers, "", {}}, *fetched);
}

void LayerStore::want(HoldPlan plan) {
  const std::lock_guard lock(state_->mutex);
  state_->plan_anew(std::move(plan));
}

Result<std::string> LayerStore::obtain(LayerRange layers, const std::function<bool()>& cancelled) {
  std::unique_lock lock(state_->mutex);
  State& state = *state_;
  if (!state.held(layers) && (!state.plan || state.plan->layers != layers)) {
    const auto holders = state.plan ? state.plan->holders : std::vector<Holder>();
    state.plan_anew({layers, "the pipeline that forms now needs them here", holders});
  }
  const std::uint64_t number = state.plans;
  const std::uint64_t tries = state.tries;
  const auto given_up = [&] { return cancelled && cancelled(); };
  const auto over = [&] {
    const bool hopeless = state.failure && state.retry_at == Clock::time_point::max();
    return state.stopping || state.held(layers) || number != state.plans || tries != state.tries ||
           hopeless || given_up();
  };
  while (!over()) state.changed.wait_for(lock, kAskAgain);
  if (state.held(layers)) return state.have->path;
  if (state.stopping || number != state.plans || !state.failure || given_up()) {
    return Error{ErrorCode::kCancelled, "these layers are wanted no more"};
  }
  return *state.failure;
}

Holding LayerStore::holding() const {
  const std::lock_guard lock(state_->mutex);
  return state_->holding;
}

std::vector<WrongBytes> LayerStore::take_wrong_bytes() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->wrong, {});
}

std::shared_ptr<const SharedFile> LayerStore::shared() const { return state_->shared; }
const model::Manifest& LayerStore::manifest() const { return state_->options.manifest; }

}  // namespace hearth::node

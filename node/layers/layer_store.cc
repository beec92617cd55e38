#include "node/layers/layer_store.h"

#include <utility>

#include "base/limits.h"
#include "node/layers/fetch_items.h"

namespace hearth::node {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kCancelPoll = std::chrono::milliseconds(50);  // whether a wait was given up

std::vector<std::size_t> common_tensors(const model::Manifest& manifest) {
  std::vector<std::size_t> common;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    if (model::is_common(manifest.tensors[i].name)) common.push_back(i);
  }
  return common;
}

// Whether sources outside the cluster may help after this error of the peers.
bool try_elsewhere(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotFound;
}

}  // namespace

void LayerStore::run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (!waits()) {
      wait();
      continue;
    }
    const HoldPlan now = *plan_;
    const std::uint64_t number = plans_;
    lock.unlock();
    const auto brought = open(bring(now, number));
    lock.lock();
    if (number != plans_ || stopping_) continue;  // another plan is newer; the bytes that came stay
    settle(now, brought);
    changed_.notify_all();
    lock.unlock();
    if (brought.ok() && options_.done) options_.done(now, brought->fetched);
    if (!brought.ok() && options_.failed) options_.failed(brought.error());
    lock.lock();
  }
}

bool LayerStore::held(LayerRange layers) const {
  return have_ && layers.begin >= have_->layers.begin && layers.end <= have_->layers.end;
}

bool LayerStore::waits() const {
  return plan_ && !held(plan_->layers) && !(failure_ && SteadyClock::now() < retry_at_);
}

// For a new plan, or for the time to try the present one again.
void LayerStore::wait() {
  const bool later = plan_ && failure_ && !held(plan_->layers);
  if (later && retry_at_ != SteadyClock::time_point::max()) {
    changed_.wait_until(mutex_, retry_at_);
  } else {
    changed_.wait(mutex_);
  }
}

void LayerStore::settle(const HoldPlan& now, const Result<Brought>& brought) {
  Status kept = brought.ok() ? keep(now.layers, *brought) : Status(brought.error());
  ++tries_;
  failure_.reset();
  if (kept.ok()) return;
  // A retry does not free memory.
  const bool final = kept.error().code == ErrorCode::kNoCapacity;
  retry_at_ = final ? SteadyClock::time_point::max() : SteadyClock::now() + options_.pause;
  failure_ = std::move(kept).error();
}

// Without the mutex, for which the main thread waits.
Result<LayerStore::Brought> LayerStore::open(Result<Fetched> fetched) {
  TRY(Fetched all, std::move(fetched));
  TRY(ModelBytes bytes, ModelBytes::open(all.path));
  return Brought{std::move(all), std::make_shared<const ModelBytes>(std::move(bytes))};
}

Status LayerStore::keep(LayerRange layers, const Brought& brought) {
  TRY(const auto tensors, model::stage_tensors(options_.manifest, layers));
  TRY(const auto items, fetch_items(options_.manifest, tensors));
  shared_->share(options_.manifest.id(), brought.bytes, ranges_of(items));
  have_ = Have{layers, brought.fetched.path, brought.fetched.wanted};
  holding_ = {layers, brought.fetched.wanted, brought.fetched.wanted};
  return ok_status();
}

Result<Fetched> LayerStore::bring(const HoldPlan& now, std::uint64_t number) {
  TRY(const std::uint64_t bytes, bytes_of(options_.manifest, now.layers));
  if (options_.begin) TRY_VOID(options_.begin(now, bytes));
  TRY(const auto tensors, model::stage_tensors(options_.manifest, now.layers));
  const auto cancelled = [this, number] { return stopping_ || number != plans_; };
  return fetch(tensors, now.holders, how_to_fetch(now.layers, cancelled, false));
}

FetchOptions LayerStore::how_to_fetch(LayerRange layers, const std::function<bool()>& cancelled,
                                      bool quiet) {
  FetchOptions how = options_.fetch;
  how.sources.clear();
  how.cancelled = cancelled;
  how.progress = [this, layers, cancelled, quiet](std::uint64_t done, std::uint64_t total) {
    if (!cancelled()) report(layers, done, total, quiet);
  };
  how.wrong = [this](const WrongBytes& said) { note(said); };
  return how;
}

// From the holders; when these cannot help, from sources outside the cluster.
Result<Fetched> LayerStore::fetch(const std::vector<std::size_t>& tensors,
                                  const std::vector<Holder>& holders, FetchOptions how) {
  if (options_.peers) how.sources = options_.peers(holders);
  auto fetched = fetch_tensors(options_.manifest, tensors, how);
  if (fetched.ok() || !try_elsewhere(fetched.error()) || !options_.elsewhere) return fetched;
  TRY(how.sources, options_.elsewhere());
  if (how.sources.empty()) return fetched;
  return fetch_tensors(options_.manifest, tensors, how);
}

// Stored bytes are unverified before keep(), so the report stays below the total until then.
void LayerStore::report(LayerRange layers, std::uint64_t done, std::uint64_t total, bool quiet) {
  const Holding now{layers, done < total ? done : total - 1, total};
  {
    const MutexLock lock(mutex_);
    holding_ = now;
  }
  if (options_.progress && !quiet) options_.progress(now);
}

// Keeps one report for each node, the newest.
void LayerStore::note(const WrongBytes& said) {
  const MutexLock lock(mutex_);
  std::erase_if(wrong_, [&](const WrongBytes& each) { return each.node == said.node; });
  if (wrong_.size() < limits::kWrongBytesTold) wrong_.push_back(said);
}

void LayerStore::plan_anew(HoldPlan now) {
  const bool same = plan_ && plan_->layers == now.layers;
  plan_ = std::move(now);
  failure_.reset();
  if (!same) ++plans_;
  if (held(plan_->layers)) holding_ = {have_->layers, have_->bytes, have_->bytes};
  changed_.notify_all();
}

Result<std::uint64_t> bytes_of(const model::Manifest& manifest, LayerRange layers) {
  TRY(const auto tensors, model::stage_tensors(manifest, layers));
  std::uint64_t bytes = manifest.header_bytes;
  for (const std::size_t index : tensors) bytes += manifest.tensors[index].bytes;
  return bytes;
}

LayerStore::LayerStore(LayerStoreOptions options) : options_(std::move(options)) {
  thread_ = std::thread([this] { run(); });
}

LayerStore::~LayerStore() {
  stop();
  thread_.join();
}

void LayerStore::stop() {
  const MutexLock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

Result<std::string> LayerStore::bring_header(const std::vector<Holder>& holders,
                                             const std::function<bool()>& cancelled) {
  FetchOptions how = options_.fetch;
  how.cancelled = cancelled;
  how.wrong = [this](const WrongBytes& said) { note(said); };
  TRY(Fetched fetched, fetch(common_tensors(options_.manifest), holders, std::move(how)));
  return std::move(fetched.path);
}

void LayerStore::recall(LayerRange layers) {
  const auto stopped = [this] { return stopping_.load(); };
  const auto tensors = model::stage_tensors(options_.manifest, layers);
  if (!tensors.ok()) return;
  const auto brought =
      open(fetch_tensors(options_.manifest, *tensors, how_to_fetch(layers, stopped, true)));
  if (!brought.ok()) return;
  {
    const MutexLock lock(mutex_);
    if (!keep(layers, *brought).ok()) return;
  }
  if (options_.done) options_.done({layers, "", {}}, brought->fetched);
}

void LayerStore::want(HoldPlan plan) {
  const MutexLock lock(mutex_);
  plan_anew(std::move(plan));
}

Result<std::string> LayerStore::obtain(LayerRange layers, const std::function<bool()>& cancelled) {
  MutexLock lock(mutex_);
  if (!held(layers) && (!plan_ || plan_->layers != layers)) {
    const auto holders = plan_ ? plan_->holders : std::vector<Holder>();
    plan_anew({layers, "the pipeline that forms now needs them here", holders});
  }
  const std::uint64_t number = plans_;
  const std::uint64_t tries = tries_;
  const auto given_up = [&] { return cancelled && cancelled(); };
  const auto over = [&]() REQUIRES_LOCK(mutex_) {
    const bool hopeless = failure_ && retry_at_ == SteadyClock::time_point::max();
    return stopping_ || held(layers) || number != plans_ || tries != tries_ || hopeless ||
           given_up();
  };
  while (!over()) changed_.wait_until(mutex_, SteadyClock::now() + kCancelPoll);
  if (held(layers)) return have_->path;
  if (stopping_ || number != plans_ || !failure_ || given_up()) {
    return Error{ErrorCode::kCancelled, "these layers are no longer needed"};
  }
  return *failure_;
}

Holding LayerStore::holding() const {
  const MutexLock lock(mutex_);
  return holding_;
}

std::vector<WrongBytes> LayerStore::take_wrong_bytes() {
  const MutexLock lock(mutex_);
  return std::exchange(wrong_, {});
}

}  // namespace hearth::node

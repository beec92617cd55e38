// LayerStore: the layers of a model that a worker holds on its disk. The coordinator names the
// layers; the store fetches them in the background and hands their file to the loader. It trusts
// only the manifest. Fetched bytes stay when a fetch or the process ends.
//
// Sources, in this order: files of this machine, nodes that hold the same layers, and the
// manifest's address of the file on the network.
//
// Threads: every method may be called from any thread. The options' functions are called on one
// thread of the store, or within bring_header() and recall().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "model/gguf/manifest.h"
#include "node/holding.h"
#include "node/layers/model_fetch.h"
#include "node/layers/shared_file.h"

namespace hearth::node {

using Sources = std::vector<std::shared_ptr<RangeSource>>;

struct LayerStoreOptions {
  model::Manifest manifest;
  FetchOptions fetch;  // except sources, progress, wrong and cancelled, which the store sets
  std::function<Sources(const std::vector<Holder>&)> peers;
  // Sources outside the cluster, used without peers and when all peers have failed; empty: none.
  std::function<Result<Sources>()> elsewhere;
  std::chrono::milliseconds pause{5'000};  // after a failure, before the next try

  // Called before each try of a plan. An error ends the try; kNoCapacity ends the plan.
  std::function<Status(const HoldPlan& plan, std::uint64_t bytes)> begin;
  std::function<void(const Holding&)> progress;
  std::function<void(const HoldPlan&, const Fetched&)> done;
  std::function<void(const Error&)> failed;
};

// Bytes of the header and of the tensors of these layers. kInvalidInput as model::stage_tensors.
Result<std::uint64_t> bytes_of(const model::Manifest& manifest, LayerRange layers);

class LayerStore {
 public:
  explicit LayerStore(LayerStoreOptions options);
  ~LayerStore();
  LayerStore(const LayerStore&) = delete;
  LayerStore& operator=(const LayerStore&) = delete;

  // The header alone: a path that model::GgufFile::open() reads. Blocks; `cancelled` is asked
  // often.
  Result<std::string> bring_header(const std::vector<Holder>& holders,
                                   const std::function<bool()>& cancelled);
  // Checks, without any network access, whether an earlier run has stored these layers; blocks.
  void recall(LayerRange layers);
  // Begins to fetch the missing layers and abandons the plan before.
  void want(HoldPlan plan);
  // Waits until these layers are stored, and plans them if no plan has: returns the path of the
  // verified file. kCancelled when a plan for other layers follows, when `cancelled` (called often)
  // returns true, or after stop(); else the error of the last try.
  Result<std::string> obtain(LayerRange layers, const std::function<bool()>& cancelled = {});
  // Ends every wait and every fetch.
  void stop();

  Holding holding() const;
  // The nodes that have sent wrong bytes since the last call; at most limits::kWrongBytesTold.
  std::vector<WrongBytes> take_wrong_bytes();
  std::shared_ptr<const SharedFile> shared() const { return shared_; }
  const model::Manifest& manifest() const { return options_.manifest; }

 private:
  struct Have {
    LayerRange layers;
    std::string path;
    std::uint64_t bytes = 0;
  };

  // The result of a fetch, and its files, opened for the peers.
  struct Brought {
    Fetched fetched;
    std::shared_ptr<const ModelBytes> bytes;
  };

  void run();
  static Result<Brought> open(Result<Fetched> fetched);
  Result<Fetched> bring(const HoldPlan& plan, std::uint64_t number);
  Result<Fetched> fetch(const std::vector<std::size_t>& tensors, const std::vector<Holder>& holders,
                        FetchOptions how);
  FetchOptions how_to_fetch(LayerRange layers, const std::function<bool()>& cancelled, bool quiet);
  void settle(const HoldPlan& plan, const Result<Brought>& brought) REQUIRES_LOCK(mutex_);
  Status keep(LayerRange layers, const Brought& brought) REQUIRES_LOCK(mutex_);
  void plan_anew(HoldPlan plan) REQUIRES_LOCK(mutex_);
  void wait() REQUIRES_LOCK(mutex_);
  void report(LayerRange layers, std::uint64_t done, std::uint64_t total, bool quiet);
  void note(const WrongBytes& said);
  bool held(LayerRange layers) const REQUIRES_LOCK(mutex_);
  bool waits() const REQUIRES_LOCK(mutex_);

  const LayerStoreOptions options_;
  const std::shared_ptr<SharedFile> shared_ = std::make_shared<SharedFile>();

  mutable Mutex mutex_;
  CondVar changed_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> plans_{0};  // number of plans; the newest one counts
  std::optional<HoldPlan> plan_ GUARDED_BY(mutex_);
  std::optional<Have> have_ GUARDED_BY(mutex_);
  std::optional<Error> failure_ GUARDED_BY(mutex_);  // of the newest plan's last try
  std::uint64_t tries_ GUARDED_BY(mutex_) = 0;       // ended tries of all plans
  std::chrono::steady_clock::time_point retry_at_ GUARDED_BY(mutex_){};
  Holding holding_ GUARDED_BY(mutex_);
  std::vector<WrongBytes> wrong_ GUARDED_BY(mutex_);  // not yet taken
  std::thread thread_;
};

}  // namespace hearth::node

// EngineThread: the StageCompute of a real worker. One Engine on one thread of its own; requests go
// in through a bounded queue, and answers return on the main thread. The next step begins while one
// is under way, if the engine can do that. As rank 0 of a group this thread sends each step to the
// other ranks before it begins; as another rank it waits for steps from there. A short step of one
// row with an empty queue is computed and answered inside compute(), which wakes no other thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/crypto.h"
#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/engine.h"
#include "node/layers/layer_store.h"
#include "node/pipeline/stage.h"
#include "node/ranks/rank_links.h"

namespace hearth::node {

class EngineThread final : public StageCompute {
 public:
  // Runs a function on the main thread, later, in the order of the calls. Called from the
  // engine's thread; never after the destructor has returned.
  using Post = std::function<void(std::function<void()>)>;
  // Makes the engine of a range. Called on the engine's thread; unload() sets options.cancelled.
  using Load = std::function<Result<std::unique_ptr<Engine>>(const EngineOptions& options)>;

  // What a worker needs to compute a stage in a group.
  struct Ranks {
    std::unique_ptr<RankLinks> links;  // null: it gets no group
    model::ModelSpec spec;
    // Its header says what a share takes; null: the memory is taken as large enough.
    std::shared_ptr<const model::GgufFile> file;
    Hash256 program;  // of this build: all ranks of a group have the same
  };

  // `base`: all options except layers, stage and batch_rows, which come with each load().
  EngineThread(EngineOptions base, Load load, Post post, Ranks ranks = {});
  ~EngineThread() override;  // waits for the steps or the loading under way
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  void set_events(StageComputeEvents* events) override;
  // The engine stays when layers, stage and batch_rows are those of the last load; else it is freed
  // before the new one is loaded. Waiting steps are answered with kCancelled.
  void load(Epoch epoch, LayerRange layers, std::uint32_t stage, std::uint32_t batch_rows) override;
  // Answered with kNoCapacity when limits::kComputeQueue steps wait already.
  // The engine stays when its share is the same, too. The kept pages of ended sequences stay only
  // if every rank of the group has taken the same steps since they were made.
  void load_rank(const Assignment& assignment) override;
  void leave() override;
  void compute(StepBatch batch) override;
  void forget() override;
  void distrust() override;
  void check_weights() override;  // kUnavailable where no layers are loaded
  void unload() override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// The Load of a GGUF file.
EngineThread::Load engine_loader(std::shared_ptr<const model::GgufFile> file,
                                 model::ModelSpec spec);
// The Load of a model whose layers `store` fetches on request; the store outlives the engine.
// `header`: the fingerprint that the file must have.
EngineThread::Load engine_loader(LayerStore& store, const Hash256& header, model::ModelSpec spec);

}  // namespace hearth::node

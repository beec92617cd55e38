// LocalRunner: the whole pipeline in one process, stages one after the other, without a network.
// Every swarm run is compared with it; `run --local`, the bench verbs and the tests use it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/engine.h"
#include "node/runner/batcher.h"
#include "node/runner/draft_model.h"

namespace hearth::node {

struct LocalOptions {
  std::uint32_t stages = 1;
  // The stages' ranges, together all layers; empty: as from hearth::split_layers() (proto/split.h).
  std::vector<LayerRange> layers = {};
  std::uint32_t threads = 1;
  bool pin = false;                         // kernels/thread_pins.h
  std::size_t kv_budget_bytes = 512 << 20;  // over all stages
  // Also KV for one sequence of the model's whole context, or as much of it as memory holds.
  bool whole_context = false;
  std::uint32_t sequences = 0;     // as EngineOptions'
  std::uint64_t memory_bytes = 0;  // over all stages; 0: what the machine has
  std::uint64_t replay_bytes = 0;  // over all stages; as EngineOptions::replay_bytes
  std::uint32_t batch_rows = 512;
  std::uint32_t prefill_rows = 128;
  std::uint32_t batches_in_flight = 1;  // BatcherOptions' of the same names
  std::uint32_t draft_rows = 0;
  BatcherOptions::Draft draft = {};
  std::shared_ptr<DraftModel> draft_model = {};  // null: none
  std::optional<ModelDrafts::Plan> draft_model_plan = {};
  const kernels::Kernels* kernels = nullptr;
  LogitsObserver* logits = nullptr;  // outlives the runner
  // The device of each stage, repeated when there are more stages; null, or an empty list: the
  // processor. They outlive the runner.
  std::vector<Device*> devices;
};

class LocalRunner {
 public:
  static Result<std::unique_ptr<LocalRunner>> load(std::shared_ptr<const model::GgufFile> file,
                                                   const LocalOptions& options);

  struct Events {
    std::function<void(const SampledToken&)> on_token;
    std::function<void(const RowHash&)> on_hash;  // may be null
    // Called for each of StepTokens::scores; may be null.
    std::function<void(const SampledToken&)> on_score = {};
    // Called before the first token with the number of cached prompt positions, if any. May be
    // null.
    std::function<void(std::uint32_t)> on_cached = {};
    std::function<void(const DraftCounts&)> on_drafts = {};  // of each step with some; may be null
    // Called for each of StepTokens::embeddings; may be null.
    std::function<void(const PromptEmbedding&)> on_embedding = {};
  };
  // `prompt`: as in SubmitMessage, with the answer so far of a resumed sequence. kNoCapacity when
  // prompt + max_tokens does not fit the context or the KV pool now.
  Status submit(const SequenceOpen& open, std::vector<TokenId> prompt, Events events);
  void cancel(SequenceId sequence);
  // Runs one step of the pipeline to its end, while later ones wait. False when there is no work.
  Result<bool> step();

  // Engine::kv_hashes of every layer; a sequence is open until the step after its last token.
  Result<std::vector<Hash256>> kv_hashes(SequenceId sequence) const;

  const model::ModelSpec& spec() const { return spec_; }
  std::size_t weight_bytes() const;

 private:
  struct Running {
    Events events;
    std::uint32_t pages = 0;  // reserved on every stage
  };
  LocalRunner(const model::ModelSpec& spec, const LocalOptions& options,
              std::vector<std::unique_ptr<Engine>> engines);
  void ask_drafts();
  void deliver(const std::vector<RowHash>& hashes);
  void deliver(const StepTokens& tokens);

  const model::ModelSpec spec_;
  SystemClock clock_;
  Batcher batcher_;
  const std::shared_ptr<DraftModel> draft_model_;
  std::deque<StepBatch> waiting_;  // formed and not begun
  std::vector<std::unique_ptr<Engine>> engines_;
  std::unordered_map<SequenceId, Running> running_;
  std::uint32_t pages_ = 0;      // of the stage with the fewest
  std::uint32_t sequences_ = 0;  // most that have room at once
  std::uint32_t reserved_ = 0;
};

}  // namespace hearth::node

// Engine: one stage's share of the canonical function. It holds the weights of a layer range and
// the KV pages of every open sequence, and runs one StepBatch after the other.
//
// A step is begun and finished. On a card the next one may begin in between, so that its rows come
// in and those of the one before go out while the card computes; results are the same as without.
//
// Threads: one caller at a time, and one thread from the first begin() to the last finish(); the
// engine splits each kernel over its own thread pool. Memory: weights, KV pages and scratch are
// taken at load; a step allocates nothing that grows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/crypto.h"
#include "base/ids.h"
#include "base/result.h"
#include "kernels/kernels.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "proto/step.h"

namespace hearth::node {

class Device;
class VocabularyReader;

// LogitsObserver: receives the logits of chosen positions, whether or not a token is sampled there;
// perplexity is measured with it. Those of a sequence that ends in kError mean nothing.
class LogitsObserver {
 public:
  virtual ~LogitsObserver() = default;
  virtual bool wants(SequenceId sequence, Position position) const = 0;
  // On any thread of the engine, several rows at once; the span lasts as long as the call.
  virtual void on_logits(SequenceId sequence, Position position, std::span<const float> logits) = 0;
};

struct EngineOptions {
  LayerRange layers;                        // first stage: begin == 0; last: end == spec.layers
  std::size_t kv_budget_bytes = 512 << 20;  // a budget under one page is refused
  // Sequences that are open at once at most, in a model whose sequences keep a state; the states
  // are taken of the KV budget. 0: as many as half of it holds, and a bounded number.
  std::uint32_t sequences = 0;
  // Memory for weights, KV, buffers and the process; 0: all that the machine has available. If it
  // does not hold the weights and one sequence, loading is refused before anything is read; if it
  // holds only a part of the KV budget, the engine takes that part.
  std::uint64_t memory_bytes = 0;
  std::uint32_t threads = 1;
  bool pin = false;                // kernels/thread_pins.h; load() and step() on one thread
  std::uint32_t batch_rows = 512;  // rows of a step at most
  // For the rows of kept pages (node/engine/prefix_cache.h): what they may take of the memory that
  // is left beside all else; 0: nothing is kept of ended sequences. Nor is it in a model whose
  // sequences keep a state.
  std::uint64_t replay_bytes = 0;
  std::uint32_t stage = 0;  // reported in RowHash
  // Null: kernels::select_kernels(). The table may change between two steps: its entries are read
  // anew in each.
  const kernels::Kernels* kernels = nullptr;
  LogitsObserver* logits = nullptr;  // outlives the engine; last stage only
  // Runs the layers in place of the processor; outlives the engine. `threads` then pack and sample,
  // and memory_bytes says nothing of the device's memory.
  Device* device = nullptr;
  // The last stage lets it begin when it is loaded; outlives the engine. Null: the vocabulary is
  // read in the step that opens the first sequence with a grammar.
  VocabularyReader* vocabulary = nullptr;
  // Called between two tensors while weights are loaded; true cancels the load (kCancelled). Empty:
  // never.
  std::function<bool()> cancelled = {};
};

struct StepResult {
  std::vector<SampledToken> tokens;         // last stage only
  std::vector<SequenceId> released;         // sequences whose KV this step gave back
  std::vector<SampledToken> scores;         // StepTokens::scores; last stage only
  std::vector<SequenceDrafts> drafts;       // likewise
  std::vector<PromptEmbedding> embeddings;  // likewise
  // Rows of sequences that asked for them; drafts of an earlier step, once they are known to stay.
  std::vector<RowHash> hashes;
  std::uint32_t replayed = 0;  // rows that were said again and not computed
  // With the first token of a sequence that has a scope: its rows from the first on that no stage
  // computed, if any. Last stage only.
  std::vector<CachedPrefix> cached;
  std::uint32_t kv_pages_kept = 0;  // of ended sequences, behind this step
  Bytes input;                      // the batch's activations as they came in
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> load(std::shared_ptr<const model::GgufFile> file,
                                              const model::ModelSpec& spec,
                                              const EngineOptions& options);
  virtual ~Engine() = default;

  // Runs the layer range over batch.rows. Reads batch.activations (or the token ids, on the first
  // stage) and leaves there what the next stage reads; on the last stage they are empty afterwards
  // and `result.tokens` is filled. A row that cannot be computed is marked kFailed, it never fails
  // the batch. An Error means that the batch itself breaks the contract (a position gap, rows of a
  // sequence never opened, a wrong activation size) and that the sender must be disconnected; or,
  // with kIo, that the device is lost and that this process must end. No other step is under way.
  Status step(StepBatch& batch, StepResult& result);

  // The two halves of step(). begin() takes the batch, unless it answers with an Error; finish()
  // gives back that of the oldest step under way. What releases give back is free once their step
  // has begun: the device works in the order of the steps.
  //
  // can_begin: that the batch would not have to wait, and that nothing which is decided as it
  // begins rests on what the steps under way have not said yet. That is so while their sequences
  // are not truncated and pages suffice for every row. A sequence that fails meanwhile takes its
  // rows of the next step with it: they are computed for nothing and marked as it is finished.
  virtual bool can_begin(const StepBatch& batch) const = 0;
  virtual Status begin(StepBatch& batch) = 0;
  virtual bool ready() const = 0;  // finish() would not wait; asked while a step is under way
  virtual Status finish(StepBatch& batch, StepResult& result) = 0;

  // Both end every sequence (a new epoch begins); weights stay. keep() keeps the pages of the ended
  // sequences until other sequences need them, as a release does of a sequence with a scope. A
  // sequence that begins with the same inputs in the same scope, or is the same one, uses them:
  // such a row is not computed again, and its kept output is said again. reset() drops all
  // sequences, including those kept before. These and the next two run while no step is under way.
  virtual void keep() = 0;
  virtual void reset() = 0;

  // A hash for each layer of the stage over the keys and values of an open sequence, so that two
  // runs can be compared in what they keep and not only in what they say. kInvalidInput when the
  // sequence is not open.
  virtual Result<std::vector<Hash256>> kv_hashes(SequenceId sequence) const = 0;

  // Checks that the weights in a device's memory are those that were loaded. kNumeric names the
  // tensor that differs; the engine must not be used any more.
  virtual Status verify_weights() = 0;

  virtual bool is_first() const = 0;
  virtual bool is_last() const = 0;
  virtual StepShape input_shape() const = 0;
  virtual std::uint32_t kv_pages() const = 0;       // of this stage, in whole pages
  virtual std::uint32_t kv_pages_used() const = 0;  // of open sequences
  // That have room at once, whatever pages they take; limits::kRunningSequences where they keep no
  // state.
  virtual std::uint32_t sequences() const = 0;
  virtual std::size_t weight_bytes() const = 0;
};

}  // namespace hearth::node

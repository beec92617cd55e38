// Engine: one stage's share of the canonical function. It holds the weights of a layer range and
// the KV pages of every open sequence, and runs one StepBatch after the other.
//
// A step is begun and finished. On a GPU the next step may begin in between, so that its rows come
// in and the previous ones go out while the GPU computes. The results are the same either way.
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
struct RankGroup;

// LogitsObserver: receives the logits of chosen positions, whether or not a token is sampled there,
// for example to measure perplexity. The logits of a sequence that ends in kError are meaningless.
class LogitsObserver {
 public:
  virtual ~LogitsObserver() = default;
  virtual bool wants(SequenceId sequence, Position position) const = 0;
  // Called on any thread of the engine, for several rows at once; the span is valid during the
  // call.
  virtual void on_logits(SequenceId sequence, Position position, std::span<const float> logits) = 0;
};

struct EngineOptions {
  LayerRange layers;                        // first stage: begin == 0; last: end == spec.layers
  std::size_t kv_budget_bytes = 512 << 20;  // at least one page
  // Most sequences that are open at once, in a model whose sequences keep a state; the KV budget
  // holds the states, too. 0: as many as half of it holds, and a bounded number.
  std::uint32_t sequences = 0;
  // Memory for weights, KV, buffers and the process; 0: all that the machine has available. If it
  // does not hold the weights and one sequence, loading fails before it reads anything. If it holds
  // only a part of the KV budget, the engine takes that part.
  std::uint64_t memory_bytes = 0;
  std::uint32_t threads = 1;
  bool pin = false;                // kernels/thread_pins.h; load() and step() on one thread
  std::uint32_t batch_rows = 512;  // rows of a step at most
  // Memory for the rows of kept pages (node/engine/prefix_cache.h), at most what everything else
  // leaves; 0: no pages are kept, nor are any in a model whose sequences keep a state.
  std::uint64_t replay_bytes = 0;
  std::uint32_t stage = 0;  // reported in RowHash
  // Null: kernels::select_kernels(). The table may change between two steps: each step reads its
  // entries again.
  const kernels::Kernels* kernels = nullptr;
  LogitsObserver* logits = nullptr;  // outlives the engine; last stage only
  // Runs the layers in place of the processor; outlives the engine. `threads` then pack and sample,
  // and memory_bytes says nothing of the device's memory.
  Device* device = nullptr;
  // The group that computes the stage together (node/engine/ranks); outlives the engine. Null: this
  // engine alone. All ranks have the same options but for `threads`, `pin`, `kernels` and
  // `memory_bytes`, and take the same steps. Rank 0 samples and reports; a step of another rank
  // returns its activations and the released sequences alone.
  const RankGroup* group = nullptr;
  // The last stage starts it at load; outlives the engine. Null: the vocabulary is read in the step
  // that opens the first sequence with a grammar.
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
  // Hashes of rows whose sequences want them. A draft's hash follows once the draft is accepted.
  std::vector<RowHash> hashes;
  std::uint32_t replayed = 0;  // rows taken from kept pages and not computed
  // With the first token of a sequence that has a scope: the number of its first rows that no stage
  // computed, if any. Last stage only.
  std::vector<CachedPrefix> cached;
  std::uint32_t kv_pages_kept = 0;  // of ended sequences, after this step
  Bytes input;                      // the batch's activations as they came in
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> load(std::shared_ptr<const model::GgufFile> file,
                                              const model::ModelSpec& spec,
                                              const EngineOptions& options);
  virtual ~Engine() = default;

  // Runs the layer range over batch.rows. Reads batch.activations (or the token ids, on the first
  // stage) and replaces them by the next stage's input. On the last stage they are empty afterwards
  // and `result.tokens` is filled. A row that cannot be computed is marked kFailed and does not
  // fail the batch. An Error means that the batch breaks the contract (a position gap, rows of an
  // unopened sequence, a wrong activation size) and that the sender must be disconnected. With kIo
  // the device is lost and this process must end. No other step is under way.
  Status step(StepBatch& batch, StepResult& result);

  // The two halves of step(). begin() takes the batch, unless it returns an Error; finish() returns
  // the batch of the oldest step under way. Released pages are free once their step has begun,
  // because the device works in the order of the steps.
  //
  // can_begin(): the batch would not wait, and no decision at its begin depends on unfinished
  // steps. That holds while it truncates none of their sequences and pages suffice for every row.
  // When a sequence fails meanwhile, its rows of the next step are computed for nothing and marked
  // when that step is finished.
  virtual bool can_begin(const StepBatch& batch) const = 0;
  virtual Status begin(StepBatch& batch) = 0;
  virtual bool ready() const = 0;  // finish() would not wait; for a step under way
  virtual Status finish(StepBatch& batch, StepResult& result) = 0;

  // Both end every sequence (a new epoch begins); weights stay. keep() keeps the pages of the ended
  // sequences until other sequences need them, as a release does for a sequence with a scope. The
  // same sequence, or one with the same first inputs in the same scope, uses them: such a row is
  // not recomputed, and its kept output is sent again. reset() also drops the kept pages. These and
  // the next two run while no step is under way.
  virtual void keep() = 0;
  virtual void reset() = 0;

  // A hash for each layer of the stage over the keys and values of an open sequence, so that two
  // runs can be compared by their KV and not only by their outputs. kInvalidInput when the sequence
  // is not open.
  virtual Result<std::vector<Hash256>> kv_hashes(SequenceId sequence) const = 0;

  // Checks that the weights in a device's memory equal the loaded ones. kNumeric names the tensor
  // that differs; the engine must not be used any more.
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

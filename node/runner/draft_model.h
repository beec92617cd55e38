// DraftModel: a small model that drafts the next tokens of a larger one. It samples like the larger
// one, with the same random number at each position, so that drafts of sampled answers are right
// more often.
//
// It holds one sequence at a time. Pages of earlier ones are kept for later sequences of the same
// scope (node/engine/prefix_cache.h). Calls come from one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/engine.h"
#include "node/runner/draft_ask.h"

namespace hearth::node {

// A draft model before its weights are read.
struct DraftFile {
  std::shared_ptr<const model::GgufFile> file;
  model::ModelSpec spec;
  EngineOptions engine;
  std::uint64_t memory_bytes = 0;  // of weights, KV and buffers, on the processor

  // The part of `given`, or of the available memory if that is 0, that is left for the stages.
  // kNoCapacity if the draft model takes all of it.
  Result<std::uint64_t> left_of(std::uint64_t given) const;
};

class DraftModel {
 public:
  static constexpr std::uint32_t kRows = 128;  // of one step; an ask reads at most these
  // A draft model takes this fraction of its worker's KV budget: one in kKvPart.
  static constexpr std::uint64_t kKvPart = 4;

  // kInvalidInput if the model of `file` cannot draft for `target`: the vocabularies differ, or the
  // target keeps a state.
  static Status check_target(const model::GgufFile& file, const model::GgufFile& target);
  // Threads, kernels and KV budget are those of the worker's stage. kInvalidInput if it cannot
  // draft for `target` (check_target), gives embeddings or keeps a state.
  static Result<DraftFile> open(std::shared_ptr<const model::GgufFile> file,
                                const model::GgufFile& target, const EngineOptions& stage);
  // Once file.engine.cancelled returns true, loading ends with kCancelled, and draft() fails.
  static Result<std::unique_ptr<DraftModel>> load(const DraftFile& file);

  DraftAnswer draft(const DraftAsk& ask);

 private:
  DraftModel(const DraftFile& file, std::unique_ptr<Engine> engine);
  struct Held {
    SequenceOpen open;
    std::vector<TokenId> rows;  // tokens whose keys and values are in the cache
  };
  Status begin(const DraftAsk& ask, StepBatch& batch);
  // The token drawn from the step's last row; nothing if it is not sampled or the sequence ends.
  Result<std::optional<TokenId>> step(StepBatch batch);
  Result<std::vector<TokenId>> answer(const DraftAsk& ask, DraftAnswer& out);

  const std::function<bool()> cancelled_;  // the file's
  const std::unique_ptr<Engine> engine_;
  const std::uint64_t most_;  // tokens of a text: those of its context, or of its KV
  std::uint64_t steps_ = 0;
  std::optional<Held> held_;
};

}  // namespace hearth::node

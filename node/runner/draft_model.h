// DraftModel: a small model that draws the tokens which a larger one may draw next. It samples as
// the larger one does, with the same random number at each position, so that likely tokens of
// sampled answers agree too.
//
// It holds one sequence at a time, that of a lone stream. Pages of earlier ones stay for later
// sequences of the same scope (node/engine/prefix_cache.h).
#pragma once

#include <cstdint>
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

  // What the stages beside it may use of `given`, or of the available memory where that is 0.
  // kNoCapacity: nothing is left.
  Result<std::uint64_t> left_of(std::uint64_t given) const;
};

class DraftModel {
 public:
  static constexpr std::uint32_t kRows = 128;  // of one step: an ask reads no more
  // A draft model's part of the KV budget of the worker that has it.
  static constexpr std::uint64_t kKvPart = 4;

  // Threads, kernels and KV budget as of the stage beside it. kInvalidInput where it cannot draft
  // for `target`: another vocabulary, or a model that gives embeddings.
  static Result<DraftFile> open(std::shared_ptr<const model::GgufFile> file,
                                const model::GgufFile& target, const EngineOptions& stage);
  static Result<std::unique_ptr<DraftModel>> load(const DraftFile& file);

  DraftAnswer draft(const DraftAsk& ask);

 private:
  DraftModel(const DraftFile& file, std::unique_ptr<Engine> engine);
  struct Held {
    SequenceOpen open;
    std::vector<TokenId> rows;  // tokens whose keys and values it has
  };
  Status begin(const DraftAsk& ask, StepBatch& batch);
  // The token that the step's last row drew; none where it was not sampled, or the sequence ends.
  Result<std::optional<TokenId>> step(StepBatch batch);
  Result<std::vector<TokenId>> answer(const DraftAsk& ask, DraftAnswer& out);

  const model::ModelSpec spec_;
  const std::unique_ptr<Engine> engine_;
  std::uint64_t steps_ = 0;
  std::optional<Held> held_;
};

}  // namespace hearth::node

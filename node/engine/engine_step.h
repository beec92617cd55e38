// Step: the engine's state of one step under way, and the last stage's report of it. Only for
// engine.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "node/engine/batch_check.h"
#include "node/engine/engine.h"
#include "node/engine/forward.h"
#include "node/engine/sampler.h"
#include "node/engine/stage_forward.h"
#include "proto/step.h"

namespace hearth::node {

// A row of the batch that is computed.
struct ComputedRow {
  std::uint32_t index = 0;  // in the batch
  StageSequence* sequence = nullptr;
  bool drawn = false;  // its token is known
};

// A step that is begun and not finished.
struct Step {
  StepBatch batch;
  StepResult result;
  std::vector<StageSequence*> sequences;  // one a row of the batch
  std::vector<ComputedRow> computed;
  std::vector<ForwardRow> rows;
  std::vector<std::uint32_t> replayed;         // rows of the batch that are in kept pages
  std::vector<std::optional<Hash256>> inputs;  // one a row of the batch, made on demand
  Bytes said;
  std::vector<DrawRequest> draws;  // the targets of rows' pointers; last stage only
  // One a row of the batch, set where a grammar masks the row; empty without such rows.
  std::vector<std::shared_ptr<const model::TokenMask>> masks;
  // The grammar's state at such a row, where its next forced tokens are wanted; likewise.
  std::vector<std::optional<model::TokenState>> states;
  std::vector<SampledToken> drawn;  // one a row of the batch; last stage only
  // One a row of the batch: the score of the prompt token after the row, if it is scored. Empty
  // when no prompt is scored.
  std::vector<std::optional<SampledToken>> scores;
  std::vector<StageSequences::node_type> released;
  StageForward::Outputs outputs;
};

// Fills the result's tokens, scores and drafts from the sampled tokens. A rejected draft and the
// rows after it, and rows after the end, give no result.
void collect_tokens(Step& step);
// Of a rank that gets no logits: takes out all that follows from tokens.
void forget_tokens(StepResult& result);
// Holds back the hashes of drafts until their sequence continues after them or ends; a truncation
// drops them.
void settle_hashes(Step& step);

}  // namespace hearth::node

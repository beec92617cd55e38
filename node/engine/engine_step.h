// Step: what the engine knows of one step that is begun and not finished, and what the last stage
// reports of it. For engine.cc alone.
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
  bool drawn = false;  // its token has come
};

// A step that is begun and not finished.
struct Step {
  StepBatch batch;
  StepResult result;
  std::vector<StageSequence*> sequences;  // one a row of the batch
  std::vector<ComputedRow> computed;
  std::vector<ForwardRow> rows;
  std::vector<std::uint32_t> replayed;         // rows of the batch whose output was kept
  std::vector<std::optional<Hash256>> inputs;  // one a row of the batch, once it was wanted
  Bytes said;
  std::vector<DrawRequest> draws;  // what rows point to; last stage only
  // One a row of the batch, of those that a grammar masks; empty when there are none.
  std::vector<std::shared_ptr<const model::TokenMask>> masks;
  // The grammar's state at such a row, where what it forces next is wanted; likewise.
  std::vector<std::optional<model::TokenState>> states;
  std::vector<SampledToken> drawn;  // one a row of the batch; last stage only
  // One a row of the batch: the score of the token behind a row of a prompt, where one is made.
  // Empty when no prompt is scored.
  std::vector<std::optional<SampledToken>> scores;
  std::vector<StageSequences::node_type> released;
  StageForward::Outputs outputs;
};

// Fills the result's tokens, scores and drafts from what was drawn. A draft that was not drawn, and
// what stands behind it or behind the end, says nothing.
void collect_tokens(Step& step);
// Of the hashes in the result, those of drafts wait until their sequence goes on behind them or
// ends: what a truncation dropped was never there.
void settle_hashes(Step& step);

}  // namespace hearth::node

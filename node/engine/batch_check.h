// check_batch: the rules of a StepBatch for a stage and its open sequences. A batch is checked as a
// whole before anything changes, so that a refused batch leaves no trace.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/crypto.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/result.h"
#include "node/engine/answer_grammar.h"
#include "node/engine/kv_cache.h"
#include "node/engine/sampler.h"
#include "proto/step.h"

namespace hearth::node {

// A sequence that is open on this stage.
struct StageSequence {
  SequenceOpen open;
  Position next = 0;            // position of its next row
  std::uint32_t under_way = 0;  // steps with rows of it that are begun and not finished
  BlockTable pages;
  std::optional<std::uint32_t> state;  // of StageForward::states(), from its first row on
  Position settled = 0;                // rows before it are finished
  Position known = 0;                  // rows before it are in pages that an ended sequence left
  // Of all rows before `known`, while each row so far was found in kept pages.
  std::optional<Hash256> chain;
  std::uint32_t cached = 0;  // last stage: rows from the first on that no stage computed
  // The first of its rows that failed, and why: all later ones fail as well.
  std::optional<Position> failed_at;
  ErrorCode why = ErrorCode::kNumeric;
  SamplerParams sampler;  // these two on the last stage only
  TokenHistory history;
  std::optional<AnswerGrammar> grammar;  // likewise, of sequences that have one
  // Last stage: what its newest row drew, where the sequence goes on behind it. The next step may
  // begin with a draft of that token.
  struct Drawn {
    Position position = 0;  // of the token
    TokenId token = 0;
  };
  std::optional<Drawn> drawn;
  // Of its latest rows, where they were drafts: reported once a later step goes on behind them.
  std::vector<RowHash> unsettled;

  // A row is another one than the kept one at its position.
  void lose_chain(Position position) {
    known = position;
    chain.reset();
  }
  // Positions whose keys and values are there.
  Position kept() const {
    const Position all = std::max(settled, known);
    return std::min(all, failed_at.value_or(all));
  }
  bool failed(Position position) const { return failed_at && position >= *failed_at; }
  void fail(Position position, ErrorCode reason) {
    if (failed(position)) return;
    failed_at = position;
    why = reason;
  }
};
using StageSequences = std::unordered_map<SequenceId, StageSequence>;

Status check_batch(const StepBatch& batch, const StageSequences& sequences, const StepShape& shape,
                   std::uint32_t batch_rows);

}  // namespace hearth::node

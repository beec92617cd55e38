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
  std::uint32_t under_way = 0;  // steps under way that have rows of it
  BlockTable pages;
  std::optional<std::uint32_t> state;  // of StageForward::states(), from its first row on
  Position settled = 0;                // rows before it are finished
  Position known = 0;                  // rows before it are in kept pages of an ended sequence
  // The hash chain of all rows before `known`, while every row so far was found in kept pages.
  std::optional<Hash256> chain;
  std::uint32_t cached = 0;  // last stage: first rows that no stage computed
  // Its first failed row and the reason: all later rows fail as well.
  std::optional<Position> failed_at;
  ErrorCode why = ErrorCode::kNumeric;
  SamplerParams sampler;  // last stage only, as the next two
  TokenHistory history;
  std::optional<AnswerGrammar> grammar;  // nothing: the sequence has no grammar
  // Last stage: the token of its newest row, if the sequence goes on. The next step may begin with
  // a draft of that token.
  struct Drawn {
    Position position = 0;  // of the token
    TokenId token = 0;
  };
  std::optional<Drawn> drawn;
  // Hashes of its latest draft rows, reported once a later step continues after them.
  std::vector<RowHash> unsettled;

  // The row at `position` differs from the kept one.
  void lose_chain(Position position) {
    known = position;
    chain.reset();
  }
  // Positions whose keys and values are stored.
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

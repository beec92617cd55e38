// What a StepBatch must be for a stage that holds certain sequences. A batch is checked as a whole
// before anything is changed, so that a refused one leaves no trace.
#pragma once

#include <unordered_map>

#include "base/error.h"
#include "base/ids.h"
#include "base/result.h"
#include "node/engine/kv_cache.h"
#include "node/engine/sampler.h"
#include "proto/step.h"

namespace hearth::node {

// A sequence that is open on this stage.
struct StageSequence {
  SequenceOpen open;
  Position next = 0;  // position of its next row
  BlockTable pages;
  bool failed = false;  // one of its rows failed: so do all later ones
  ErrorCode why = ErrorCode::kNumeric;
  SamplerParams sampler;  // these two on the last stage only
  TokenHistory history;
};
using StageSequences = std::unordered_map<SequenceId, StageSequence>;

Status check_batch(const StepBatch& batch, const StageSequences& sequences, const StepShape& shape,
                   std::uint32_t batch_rows);

}  // namespace hearth::node

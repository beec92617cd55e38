// Recomputes a request with its claimed tokens as input, so that each stage is judged by its own
// input. A referee streams the model layer by layer (layer_stream.h). A client that checks its own
// answer holds the whole model in memory, because after a false token the model's own tokens are
// computed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ledger/dispute/recompute.h"
#include "node/proof/layer_stream.h"
#include "node/runner/local_runner.h"

namespace hearth::node {

// The tokens to feed, and how far the model continues with its own.
struct RecomputeOrder {
  FedSequence fed;              // the prompt and the fed part of the answer
  std::uint32_t positions = 0;  // to compute at most; after the fed ones the model's own
  bool report_hashes = false;   // boundaries are wanted
};

struct RecomputedRun {
  std::vector<TokenId> tokens;                   // by position: the fed ones, then the model's own
  std::vector<std::vector<Hash256>> boundaries;  // what left each stage but the last, by position
  // From the first token of the answer on; without report_hashes, from the first unfed token on.
  std::vector<SampledToken> sampled;
};

struct RecomputeEvents {
  std::function<bool()> stopped = {};  // empty: never
  std::function<void(std::uint64_t done, std::uint64_t of)> progress = {};
};

// With all of the model in memory, split into `stages`. It ends at order.positions, or where the
// model's own tokens end by the request's sampling. kCancelled once stopped.
Result<RecomputedRun> recompute(LocalRunner& runner, std::uint32_t stages,
                                const RecomputeOrder& order, const RecomputeEvents& events);

struct RefereeOptions {
  std::uint32_t threads = 1;
  // When a token is false, the true answer is computed to its end, if memory holds the model.
  bool with_true_answer = true;
};

// The referee's finding. kUnavailable when this machine cannot compute the model, or the case
// concerns another model; kCancelled once stopped.
Result<ledger::RefereeFinding> compute_case(const std::string& model,
                                            const ledger::RefereeCase& request,
                                            const RefereeOptions& options,
                                            const RecomputeEvents& events);

}  // namespace hearth::node

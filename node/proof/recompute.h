// Computes a request again: its tokens are fed as they were claimed, so that the roots and the
// samples behind each of them judge each stage by its own input. A referee streams the model layer
// by layer (layer_stream.h); a client that checks its own answer has all of the model in memory,
// for what follows a false token is the model's own.
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

// What is fed of a request, and how far the model goes on by itself.
struct RecomputeOrder {
  FedSequence fed;              // a prompt, and what is fed of its answer
  std::uint32_t positions = 0;  // that are computed at most; above the fed ones, of the model's own
  bool report_hashes = false;   // boundaries are wanted
};

struct RecomputedRun {
  std::vector<TokenId> tokens;                   // by position: the fed ones, then the model's own
  std::vector<std::vector<Hash256>> boundaries;  // what left each stage but the last, by position
  // From the first of the answer on; without report_hashes, from the first that was not fed on.
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
  bool with_true_answer = true;  // where a token is false: to its end, if memory holds the model
};

// What a referee finds. kUnavailable when this machine cannot compute the model, or the case is of
// another one; kCancelled once stopped.
Result<ledger::RefereeFinding> compute_case(const std::string& model,
                                            const ledger::RefereeCase& request,
                                            const RefereeOptions& options,
                                            const RecomputeEvents& events);

}  // namespace hearth::node

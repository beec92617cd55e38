// What the coordinator asks of somebody who computes a request again with a copy of the model of
// his own, to say who is right (ledger/PROTOCOL.md, 4). He is told what was claimed, and nothing of
// whose roots differ.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "ledger/receipt.h"
#include "proto/step.h"

namespace hearth::coordinator {

struct RefereeCase {
  Hash256 salt;                   // of the request
  std::vector<LayerRange> split;  // by stage; all layers of the model
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  // claimed; fed as it is, as far as positions go
  SamplingParams sampling;      // of the run that claimed it
  std::uint32_t positions = 0;  // that were fed: at most all of prompt and answer
  std::int64_t until = 0;       // unix seconds: nobody wants it from then on; 0: whenever it comes
};

struct RefereeFinding {
  // Of one window and stage, for the claimed tokens. The first stage's root of what came in and the
  // last one's of what went out are the commitment to the claimed tokens.
  struct Roots {
    Hash256 in;
    Hash256 out;
  };
  std::map<std::uint32_t, std::vector<Roots>> windows;  // by stage
  // What the model samples behind each claimed token, from the first of the answer on: at [i] the
  // token that belongs to position prompt + i, given the claimed ones before it. As many as
  // positions allow.
  std::vector<TokenId> sampled;
  // The true answer: from the first claimed token that the model does not sample on, its own.
  std::vector<TokenId> tokens;
};

// `done` comes once, on any thread. kUnavailable: there is no referee now. kTimeout: not in time.
using Referee = std::function<void(RefereeCase, std::function<void(Result<RefereeFinding>)> done)>;

}  // namespace hearth::coordinator

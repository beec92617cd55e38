// The input and the result of recomputing a request in dispute (PROTOCOL.md, 4). The referee gets
// the claims but not whose roots differ. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/crypto.h"
#include "base/ids.h"
#include "proto/step.h"

namespace hearth::ledger {

// The root of each stage's output, by window and stage; the last stage's is the commitment to the
// window's tokens.
using WindowRoots = std::map<std::uint32_t, std::vector<Hash256>>;

struct RefereeCase {
  Hash256 model = {};             // its manifest's id
  Hash256 salt;                   // of the request
  std::vector<LayerRange> split;  // by stage; all layers of the model
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  // claimed; fed as it is, as far as positions go
  SamplingParams sampling;      // of the run that claimed it
  std::uint32_t positions = 0;  // that were fed: at most all of prompt and answer
  std::int64_t until = 0;       // unix seconds after which the finding is of no use; 0: none
  friend bool operator==(const RefereeCase&, const RefereeCase&) = default;
};

struct RefereeFinding {
  WindowRoots windows;  // for the claimed tokens
  // The model's samples for the answer: at [i] the token for position prompt + i, given the claimed
  // tokens before it. As many as positions allow.
  std::vector<TokenId> sampled;
  // The true answer: from the first claimed token that the model does not sample on, the model's
  // own. With is_cut it ends with the first of those.
  std::vector<TokenId> tokens;
  bool is_cut = false;
};

}  // namespace hearth::ledger

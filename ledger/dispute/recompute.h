// What a request in dispute is computed again from, and what comes of it (PROTOCOL.md, 4). The
// referee is told what was claimed, and not whose roots differ. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/crypto.h"
#include "base/ids.h"
#include "proto/step.h"

namespace hearth::ledger {

// The root of what left each stage, by window and by stage; the last stage's is the commitment to
// the window's tokens.
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
  // What the model samples behind each claimed token, from the first of the answer on: at [i] the
  // token that belongs to position prompt + i, given the claimed ones before it. As many as
  // positions allow.
  std::vector<TokenId> sampled;
  // The true answer: from the first claimed token that the model does not sample on, the model's
  // own. Where is_cut, it ends with the first of those.
  std::vector<TokenId> tokens;
  bool is_cut = false;
};

}  // namespace hearth::ledger

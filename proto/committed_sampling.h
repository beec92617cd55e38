// What a receipt commits to of how its request's tokens are drawn (ledger/PROTOCOL.md, 2): all but
// where the answer may end at the latest. So an answer that its client ended can be computed again
// up to there under the same commitment; which tokens there are, the commitment says itself.
#pragma once

#include "proto/step.h"

namespace hearth {

inline Bytes encode_committed(SamplingParams params) {
  params.max_tokens = 1;
  return encode(params);
}

}  // namespace hearth

// The sampling parameters that a receipt commits to (ledger/PROTOCOL.md, 2): all but the maximum
// length of the answer. So an answer that its client ended can be recomputed up to its end under
// the same commitment, which covers the tokens themselves.
#pragma once

#include "proto/step.h"

namespace hearth {

inline Bytes encode_committed(SamplingParams params) {
  params.max_tokens = 1;
  return encode(params);
}

}  // namespace hearth

// The encoded form of a grammar. All numbers are LEB128 of the fewest bytes.
//
//   version (1), number of states, then of each state:
//     2 * number of byte edges + (1 if the rule may end here)
//     of each byte edge, ascending: low (1 byte), high (1 byte), next
//     number of calls
//     of each call: start, min, max + 1 (0: no limit), next
//
// A state is written as its distance from the state that names it: 2d for d behind, 2d - 1 for d
// before.
#pragma once

#include <vector>

#include "model/grammar/grammar.h"

namespace hearth::model {

struct EncodedState {
  bool final = false;
  std::vector<Grammar::ByteEdge> bytes;
  std::vector<Grammar::CallEdge> calls;
};

Bytes encode_states(const std::vector<EncodedState>& states);

}  // namespace hearth::model

// As REQUIRE, for input that is well-formed but exceeds what this build supports.
#define REQUIRE_SUPPORTED(condition, ...)                                                         \
  do {                                                                                            \
    if (!(condition)) return ::hearth::Error::of(::hearth::ErrorCode::kUnsupported, __VA_ARGS__); \
  } while (0)

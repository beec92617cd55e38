// Follows a text of a grammar for a while. Every state has a next byte or may end, unless it has as
// many stacks as are kept: the one that goes on may be among those that were dropped.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "base/limits.h"
#include "model/grammar/grammar_state.h"

namespace hearth::model {

inline void walk_grammar(const Grammar& grammar, std::uint64_t seed) {
  GrammarState state(grammar);
  if (state.broken()) std::abort();
  for (int step = 0; step < 200 && state.can_go_on(); ++step) {
    if (state.stacks() > limits::kGrammarStacks) std::abort();
    seed = seed * 6364136223846793005 + 1442695040888963407;
    // Of the edges that can be taken, the first from a random one of a random stack on.
    bool moved = false;
    for (std::size_t s = 0; s < state.stacks() && !moved; ++s) {
      const auto stack = state.stack(((seed >> 33) + s) % state.stacks());
      if (stack.size() > limits::kGrammarDepth + 1) std::abort();
      const std::uint32_t top = stack.back().at;
      const std::uint32_t begin = grammar.states()[top].bytes;
      const std::uint32_t edges = grammar.states()[top + 1].bytes - begin;
      if (edges == 0) std::abort();
      for (std::uint32_t i = 0; i < edges && !moved; ++i) {
        const auto& edge = grammar.byte_edges()[begin + (i + (seed >> 40)) % edges];
        GrammarState next = state;
        moved = next.accept(edge.low);
        if (moved) state = next;
      }
    }
    if (moved) continue;
    if (!state.may_end() && state.stacks() < limits::kGrammarStacks) std::abort();
    return;
  }
}

}  // namespace hearth::model

// What the first stage asks a draft model, and what comes back: the tokens that it would draw next
// behind those of a sequence. No answer depends on it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"
#include "proto/step.h"

namespace hearth::node {

struct DraftAsk {
  SequenceOpen open;            // as the stages have it
  std::vector<TokenId> tokens;  // of the sequence so far; the prompt, and 1 or more of the answer
  std::uint32_t count = 0;      // of drafts at most; 0: the model only reads some of the tokens
};

struct DraftAnswer {
  SequenceId sequence;
  std::vector<TokenId> drafts;  // none where too many tokens were not read yet
  std::uint32_t read = 0;       // of the ask's tokens, from the first on, that the model has read
  // The model cannot draft for this sequence: no room, or no numbers.
  bool failed = false;
};

// Where a draft model computes beside its caller, which gets `done` on its own thread, later.
class DraftSource {
 public:
  using Done = std::function<void(DraftAnswer answer)>;
  virtual ~DraftSource() = default;
  virtual void ask(DraftAsk ask, Done done) = 0;
  // Gives back its memory; the next ask loads it again.
  virtual void unload() = 0;
};

}  // namespace hearth::node

// DraftAsk and DraftAnswer: the first stage asks a draft model for the next tokens of a sequence.
// Drafts never change a token of the sequence's answer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"
#include "proto/step.h"

namespace hearth::node {

struct DraftAsk {
  SequenceOpen open;            // as the stages got it
  std::vector<TokenId> tokens;  // of the sequence so far: the prompt and 1 or more of the answer
  std::uint32_t count = 0;      // most drafts; 0: the model only reads some of the tokens
  bool waited_for = false;      // the sequence's next step waits for the answer
};

struct DraftAnswer {
  SequenceId sequence;
  std::vector<TokenId> drafts;  // empty while too many tokens are unread
  std::uint32_t read = 0;       // the first tokens of the ask that the model has read
  bool failed = false;          // the model cannot draft for this sequence: no memory, or an error
};

// DraftSource: a draft model that computes beside its caller. `done` is called later, on the
// caller's thread.
class DraftSource {
 public:
  using Done = std::function<void(DraftAnswer answer)>;
  virtual ~DraftSource() = default;
  virtual void ask(DraftAsk ask, Done done) = 0;
  // Frees the model's memory; an ask that follows loads it again, one that waits fails. `done` is
  // called later, on the caller's thread.
  virtual void unload(std::function<void()> done) = 0;
};

}  // namespace hearth::node

// DraftAsks: the ask of a batcher that a draft model has not answered. There is at most one.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/ids.h"
#include "node/runner/draft_ask.h"

namespace hearth::node {

class DraftAsks {
 public:
  struct Asked {
    SequenceId sequence;
    std::uint32_t count = 0;  // 0: the drafts of the answer are not wanted
    bool waits = false;       // the sequence waits for the answer
    Position first = 0;       // of the drafts
  };

  bool under_way() const { return asked_.has_value(); }
  bool waits() const { return asked_ && asked_->waits; }
  void begin(DraftAsk ask) {
    INVARIANT(!asked_, "one ask is under way at most");
    asked_ = {ask.open.sequence, ask.count, ask.waited_for,
              static_cast<Position>(ask.tokens.size())};
    ask_ = std::move(ask);
  }
  // The ask that has begun, once.
  std::optional<DraftAsk> give_out() { return std::exchange(ask_, std::nullopt); }
  Asked answered(SequenceId sequence) {
    INVARIANT(asked_ && !ask_ && asked_->sequence == sequence, "an ask is answered once");
    return *std::exchange(asked_, std::nullopt);
  }
  // The sequence has got another token than the ask expects: the answer says only what the model
  // has read.
  void drop_drafts(SequenceId sequence) {
    if (!asked_ || asked_->sequence != sequence) return;
    INVARIANT(!asked_->waits, "a sequence that waits gets no token");
    asked_->count = 0;
  }
  // The sequence has ended.
  void forget(SequenceId sequence) {
    if (!asked_ || asked_->sequence != sequence) return;
    asked_->count = 0;
    asked_->waits = false;
  }
  // The sequence that waited; its drafts are not wanted any more.
  std::optional<SequenceId> stop_waiting() {
    if (!waits()) return std::nullopt;
    const SequenceId sequence = asked_->sequence;
    asked_->count = 0;
    asked_->waits = false;
    if (std::exchange(ask_, std::nullopt)) asked_.reset();
    return sequence;
  }

 private:
  std::optional<DraftAsk> ask_;  // until give_out()
  std::optional<Asked> asked_;   // until its answer
};

}  // namespace hearth::node

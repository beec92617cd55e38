// DisputeSeat: a DisputeParty on a thread of its own, at low priority, beside what serves. A trace
// may take minutes; whatever is ordered meanwhile waits, and leave() ends it at its next position.
//
// Threads: begin(), step() and lose() from the pipeline's, the others from any; `send` is called on
// this thread, and not after the destructor has returned.
#pragma once

#include <functional>
#include <memory>

#include "node/proof/dispute_party.h"

namespace hearth::node {

class DisputeSeat {
 public:
  static constexpr std::size_t kOrders = 8;  // that wait; one game has one at a time
  using Send = std::function<void(control::v1::DisputeMove)>;

  DisputeSeat(std::unique_ptr<DisputeParty> party, Send send);
  ~DisputeSeat();  // waits for the position under way

  void take(control::v1::DisputeOrder order);
  // As of DisputeRows.
  void step(const StepBatch& batch, ByteSpan in);
  void lose();
  void leave();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace hearth::node

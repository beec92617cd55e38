// ReceiptMaker: makes a worker's receipts on its own thread, so that no step waits for hashing or
// signing. When the thread falls behind (limits::kReceiptQueueBytes), steps are skipped. The
// requests that are open then get no more receipts in this pipeline.
//
// Threads: made, called and destroyed on the main thread; `post` hands messages to it, and may be
// called from any.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/worker_thread.h"
#include "node/proof/window_receipts.h"

namespace hearth::node {

class ReceiptMaker {
 public:
  using Post = std::function<void(std::function<void()>)>;
  using Send = std::function<void(const control::v1::WorkerMessage&)>;

  // `schedule`: runs the work instead of a thread; null: own thread.
  ReceiptMaker(ReceiptIdentity identity, const Clock& clock, Post post,
               WorkerThread::Schedule schedule = {});
  ~ReceiptMaker();

  const std::string& build() const { return build_; }
  void set_send(Send send);  // to the coordinator; null: nothing is sent

  // As in WindowReceipts.
  void begin(const Assignment& assignment, const Hash256& model);
  void step(StepBatch batch, Bytes in, std::vector<SampledToken> drawn = {});
  // A Countersign, a SealOrder or an OpenOrder.
  void take(control::v1::CoordinatorMessage order);
  // Answers an accusation with the result of the self-check.
  void plead(control::v1::Accusation accusation, control::v1::SelfChecked found);
  void forget();

 private:
  struct State;
  const std::string build_;
  std::shared_ptr<State> state_;
};

}  // namespace hearth::node

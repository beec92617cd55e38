// ReceiptMaker: a worker's receipts, on a thread of their own behind everything that an answer
// waits for. Hashing, signing and the bytes that wait for them cost no step any time; when they do
// not keep up (limits::kReceiptQueueBytes), steps are left out, and what was open has no receipts.
//
// Threads: made, called and destroyed on the owner's; `post` hands messages to it, and may be
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

  // `schedule`: in place of the thread; null: there is one.
  ReceiptMaker(ReceiptIdentity identity, const Clock& clock, Post post,
               WorkerThread::Schedule schedule = {});
  ~ReceiptMaker();

  const std::string& build() const { return build_; }
  void set_send(Send send);  // to the coordinator; null: nothing is sent

  // As of WindowReceipts.
  void begin(const Assignment& assignment, const Hash256& model);
  void step(StepBatch batch, Bytes in, std::vector<SampledToken> drawn = {});
  // A Countersign, a SealOrder or an OpenOrder.
  void take(control::v1::CoordinatorMessage order);
  // What a self-check found, when the node is accused.
  void plead(control::v1::Accusation accusation, control::v1::SelfChecked found);
  void forget();

 private:
  struct State;
  const std::string build_;
  std::shared_ptr<State> state_;
};

}  // namespace hearth::node

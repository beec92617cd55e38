// StageProof: takes the coordinator's orders about receipts, audits and disputes. It passes receipt
// orders to the ReceiptMaker. It answers accusations and self-checks after hashing the loaded
// weights and testing the kernels.
//
// Main thread.
#pragma once

#include <deque>
#include <functional>

#include "base/result.h"
#include "node/stage_options.h"
#include "proto/control.pb.h"

namespace hearth::node {

class StageCompute;

class StageProof {
 public:
  using Send = std::function<void(const control::v1::WorkerMessage&)>;

  // All outlive this object.
  StageProof(const StageOptions& options, StageCompute& compute, Send send);
  ~StageProof();

  // One of ControlEvents::on_proof().
  void take(const control::v1::CoordinatorMessage& order);
  // The weights were hashed again: answers every waiting self-check.
  void on_weights_checked(const Status& weights);
  // The coordinator is lost: pending receipts are dropped.
  void on_control_lost();

 private:
  using Found = std::function<void(const control::v1::SelfChecked& found)>;
  void take_accusation(const control::v1::Accusation& accusation);
  void take_self_check(const control::v1::SelfCheck& check);
  void check_self(Found done);

  const StageOptions& options_;
  StageCompute& compute_;
  const Send send_;
  std::deque<Found> waiting_;  // for the weights
};

}  // namespace hearth::node

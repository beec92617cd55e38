// StageProof: a worker's ProofPort. It hands receipts' messages to the ReceiptMaker, and answers
// accusations and self-checks after the loaded weights were hashed and the kernels tested.
//
// Owner's thread.
#pragma once

#include <deque>
#include <functional>

#include "base/result.h"
#include "node/control/proof_port.h"
#include "node/pipeline/stage.h"
#include "node/stage_options.h"

namespace hearth::node {

class StageProof final : public ProofPort {
 public:
  using Send = std::function<void(const control::v1::WorkerMessage&)>;

  // All outlive this object.
  StageProof(const StageOptions& options, StageCompute& compute, Send send);
  ~StageProof() override;

  // The weights were hashed again: every self-check that waits is answered.
  void on_weights_checked(const Status& weights);
  // The coordinator is lost, and with it all that receipts waited for.
  void on_control_lost();

  void on_countersign(const control::v1::Countersign& message) override;
  void on_seal_order(const control::v1::SealOrder& order) override;
  void on_open_order(const control::v1::OpenOrder& order) override;
  void on_accusation(const control::v1::Accusation& accusation) override;
  void on_self_check(const control::v1::SelfCheck& check) override;

 private:
  using Found = std::function<void(const control::v1::SelfChecked& found)>;
  void check_self(Found done);

  const StageOptions& options_;
  StageCompute& compute_;
  const Send send_;
  std::deque<Found> waiting_;  // for the weights
};

}  // namespace hearth::node

// WorkerHoldings: which layers the workers without the whole model are told to hold, whom they may
// fetch them from, and who is accused of having sent wrong bytes of the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/machine/machine_parts.h"
#include "coordinator/workers/registry.h"
#include "proto/control.pb.h"

namespace hearth::coordinator {

class WorkerHoldings : MachineParts {
 public:
  explicit WorkerHoldings(const MachineParts& parts) : MachineParts(parts) {}

  // Tells a worker that has registered what to hold, where the layers are split evenly. Elsewhere a
  // worker is told by the pipeline that takes it.
  void send_plan(Node& node);
  // Tells a worker to hold `layers` from now on, and why.
  void send_plan(Node& node, LayerRange layers, const std::string& why);
  control::v1::CoordinatorMessage message(const Node& node) const;

  // The manifest of the model file is known: every worker with a plan is told.
  void publish_model(const Hash256& model);
  const std::optional<Hash256>& model() const { return model_; }

  // Takes a worker's accusations. kInvalidInput names field and limit.
  Status take_wrong_bytes(Node& node, const control::v1::Heartbeat& heartbeat);
  // A worker that registers again trusts this process again.
  void forget_accuser(const std::string& name) { own_accusers_.names.erase(name); }
  std::vector<AccusedStatus> accused() const;

 private:
  Accusers* accusers_of(const std::string& holder);
  void send_plans_again();

  std::optional<Hash256> model_;
  Accusers own_accusers_;  // of this process as a holder, each since it registered
};

}  // namespace hearth::coordinator

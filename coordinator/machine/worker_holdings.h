// WorkerHoldings: tells workers without the whole model which layers to hold and from which nodes
// to fetch them. It keeps the accusations of wrong bytes.
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

  // Tells a registered worker what to hold, when layers are split evenly. Otherwise the pipeline
  // that takes a worker tells it.
  void send_plan(Node& node);
  // Tells a worker to hold `layers` from now on, and why.
  void send_plan(Node& node, LayerRange layers, const std::string& why);
  control::v1::CoordinatorMessage message(const Node& node) const;

  // The model's manifest is known: tells every worker with a plan.
  void publish_model(const Hash256& model);
  const std::optional<Hash256>& model() const { return model_; }

  // Takes a worker's accusations. kInvalidInput names field and limit.
  Status take_wrong_bytes(Node& node, const control::v1::Heartbeat& heartbeat);
  // A worker that registers again may fetch from this process again.
  void forget_accuser(const std::string& name) { own_accusers_.names.erase(name); }
  std::vector<AccusedStatus> accused() const;

 private:
  Accusers* accusers_of(const std::string& holder);
  void send_plans_again();

  std::optional<Hash256> model_;
  Accusers own_accusers_;  // accusers of this process as a holder, since each registered
};

}  // namespace hearth::coordinator

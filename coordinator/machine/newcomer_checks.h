// NewcomerChecks: the requests that the coordinator makes itself so that newcomers have something
// to check (Canaries, ledger/PROTOCOL.md section 4), and what a newcomer waits for.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "coordinator/coordinator.h"
#include "coordinator/machine/canaries.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/scheduling/scheduler.h"

namespace hearth::coordinator {

class NewcomerChecks {
 public:
  using Submit =
      std::function<Result<SequenceId>(GenerateRequest, std::shared_ptr<SequenceEvents>)>;

  // All outlive this object.
  NewcomerChecks(const CoordinatorOptions& options, const Clock& clock, Random& random,
                 const Pipelines& pipelines, Scheduler& scheduler, Submit submit);

  // Submits the canaries that are due, while there are newcomers to check them.
  void on_timer();
  // A client's request was admitted: canaries look like those.
  void saw(const GenerateRequest& request);
  // One sentence for people: what a newcomer does or waits for. Empty for other nodes.
  std::string describe(const NodeStatus& node) const;
  std::uint64_t total() const { return total_; }

 private:
  const CoordinatorOptions& options_;
  const Clock& clock_;
  const Pipelines& pipelines_;
  Scheduler& scheduler_;
  const Submit submit_;
  Canaries canaries_;
  std::uint64_t total_ = 0;
};

}  // namespace hearth::coordinator

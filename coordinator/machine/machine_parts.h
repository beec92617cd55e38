// The references that the coordinator's parts share. CoordinatorMachine owns everything. A part
// derives from this to use the names directly.
//
// One thread. A call to another part may lose workers and end pipelines, and an event's receiver
// may submit or cancel. So state is consistent before anything is sent, and a pointer to a Pipeline
// is invalid afterwards.
#pragma once

#include "base/clock.h"
#include "coordinator/coordinator.h"

namespace hearth::coordinator {

class Meetings;
class NewcomerChecks;
class PipelineLifecycle;
class PipelineLinks;
class Pipelines;
class Registry;
class Scheduler;
class SequenceLifecycle;
class StandingView;
class WorkerHoldings;
class WorkerSessions;

struct MachineParts {
  const CoordinatorOptions& options_;
  const Clock& clock_;
  Transport& control_;  // knows the key at the other end of a link
  Transport& data_;     // last stages dial its address, and this process serves layers there
  Registry& registry_;
  Pipelines& pipelines_;
  PipelineLinks& links_;
  Scheduler& scheduler_;
  Meetings& meetings_;
  WorkerHoldings& holdings_;
  WorkerSessions& sessions_;
  StandingView& standings_;
  NewcomerChecks& newcomers_;
  SequenceLifecycle& sequences_;
  PipelineLifecycle& lifecycle_;
};

}  // namespace hearth::coordinator

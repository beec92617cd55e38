// What the parts of the coordinator's machine share. CoordinatorMachine owns all of it. A part
// derives from this, so that its own code names what it uses.
//
// One thread. A call of another part may lose workers and end pipelines, and an owner's event may
// submit or cancel: state is brought in order before anything is sent, and a pointer to a Pipeline
// is not valid after it.
#pragma once

#include "base/clock.h"
#include "coordinator/coordinator.h"

namespace hearth::coordinator {

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
  Transport& data_;     // its address: this process serves layers there, and last stages dial it
  Registry& registry_;
  Pipelines& pipelines_;
  PipelineLinks& links_;
  Scheduler& scheduler_;
  WorkerHoldings& holdings_;
  WorkerSessions& sessions_;
  StandingView& standings_;
  NewcomerChecks& newcomers_;
  SequenceLifecycle& sequences_;
  PipelineLifecycle& lifecycle_;
};

}  // namespace hearth::coordinator

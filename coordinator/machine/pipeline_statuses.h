// What a status says of the pipelines.
#pragma once

#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/machine/standing_view.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/scheduling/scheduler.h"

namespace hearth::coordinator {

// Every pipeline, by epoch, with what its pool of the scheduler runs, its level and its twins.
std::vector<PipelineStatus> pipeline_statuses(const Pipelines& pipelines,
                                              const Scheduler& scheduler,
                                              const StandingView& standings);

}  // namespace hearth::coordinator

// Whether the answer to a request can be verified: some pipeline that its policy allows must have
// another one, which its policy allows too, that can recompute it. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "coordinator/coordinator.h"

namespace hearth::coordinator {

// Whether the policy allows all nodes of the pipeline, and the pipeline serves.
bool may_use(const RequestPolicy& policy, const PipelineStatus& pipeline);

// Why the answer cannot be verified, as the end of a sentence; empty: it can.
std::string why_unverifiable(AuditMode mode, const std::vector<PipelineStatus>& pipelines,
                             const RequestPolicy& policy);

}  // namespace hearth::coordinator

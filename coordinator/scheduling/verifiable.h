// Whether the answer to a request can be verified: its policy must allow one pipeline to compute it
// and another one to recompute it. Pure functions.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"

namespace hearth::coordinator {

// Whether the policy allows all nodes of the pipeline, and the pipeline serves.
inline bool may_use(const RequestPolicy& policy, const PipelineStatus& pipeline) {
  if (pipeline.state != "serving" || pipeline.level < policy.min_level) return false;
  return policy.trust.empty() || std::ranges::all_of(pipeline.nodes, [&](const std::string& node) {
           return std::ranges::count(policy.trust, node) > 0;
         });
}

// Why the answer cannot be verified, as the end of a sentence; empty: it can.
inline std::string why_unverifiable(AuditMode mode, const std::vector<PipelineStatus>& pipelines,
                                    const RequestPolicy& policy) {
  if (mode == AuditMode::kOff) return "audits are off on this server (--audit off)";
  std::vector<const PipelineStatus*> allowed;
  for (const PipelineStatus& pipeline : pipelines) {
    if (may_use(policy, pipeline)) allowed.push_back(&pipeline);
  }
  const bool audited = std::ranges::any_of(allowed, [&](const PipelineStatus* one) {
    return std::ranges::any_of(allowed, [&](const PipelineStatus* other) {
      return std::ranges::count(one->twins, other->epoch) > 0;
    });
  });
  if (audited) return "";
  return "no second pipeline can recompute it: of the pipelines that the request may use, no two "
         "have the same layer split and different owners";
}

}  // namespace hearth::coordinator

#include "coordinator/machine/pipeline_statuses.h"

#include <utility>

namespace hearth::coordinator {

std::vector<PipelineStatus> pipeline_statuses(const Pipelines& pipelines,
                                              const Scheduler& scheduler,
                                              const StandingView& standings) {
  std::vector<PipelineStatus> out;
  for (const auto& [epoch, pipeline] : pipelines.all()) {
    PipelineStatus one;
    one.epoch = epoch;
    one.state = !pipeline.serving ? "forming" : pipeline.checking ? "checking" : "serving";
    for (const Member& member : pipeline.members) one.nodes.push_back(member.node);
    const auto pool = scheduler.pools().find(epoch);
    if (pool != scheduler.pools().end()) {
      one.running = pool->second.running;
      one.kv_pages_reserved = pool->second.reserved;
      one.level = pool->second.level;
      one.twins = standings.twins_of(pipeline);
    }
    one.kv_pages = pipeline.kv_pages;
    one.kv_page_tokens = pipeline.kv_page_tokens;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace hearth::coordinator

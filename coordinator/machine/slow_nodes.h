// SlowNodes: finds the stages whose steps take much longer than they did (their owner plays, their
// clocks are turned down, others use their processors), and routes around them where other nodes
// can take their layers at once. Elsewhere a slow node stays, since a slow answer is an answer.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "coordinator/machine/standing_view.h"
#include "coordinator/machine/worker_holdings.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/scheduling/scheduler.h"
#include "coordinator/workers/registry.h"

namespace hearth::coordinator {

class SlowNodes {
 public:
  // Ends a pipeline without blame; what runs there goes on as after a loss.
  using End = std::function<void(Epoch, const std::string& why)>;

  // All outlive this object.
  SlowNodes(const Clock& clock, Registry& registry, Pipelines& pipelines, Scheduler& scheduler,
            WorkerHoldings& holdings, const StandingView& standings, End end);

  void on_timer();

 private:
  std::optional<std::uint32_t> slow_stage(const Pipeline& pipeline);
  void route_around(Epoch epoch, std::uint32_t stage);
  // Tells a spare with other layers on its disk to fetch these.
  void prepare_spare(LayerRange layers);

  const Clock& clock_;
  Registry& registry_;
  Pipelines& pipelines_;
  Scheduler& scheduler_;
  WorkerHoldings& holdings_;
  const StandingView& standings_;
  const End end_;
};

}  // namespace hearth::coordinator

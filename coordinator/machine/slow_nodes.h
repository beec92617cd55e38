// SlowNodes: finds the stages whose steps take much longer than they did (their owner plays, their
// clocks are turned down, others use their processors), and routes around them where other nodes
// can take their layers at once. Elsewhere a slow node stays, since a slow answer is an answer.
#pragma once

#include <cstdint>
#include <optional>

#include "coordinator/machine/machine_parts.h"
#include "coordinator/pipelines/pipelines.h"

namespace hearth::coordinator {

class SlowNodes : MachineParts {
 public:
  explicit SlowNodes(const MachineParts& parts) : MachineParts(parts) {}

  void on_timer();

 private:
  std::optional<std::uint32_t> slow_stage(const Pipeline& pipeline);
  void route_around(Epoch epoch, std::uint32_t stage);
  // Tells a spare with other layers on its disk to fetch these.
  void prepare_spare(LayerRange layers);
};

}  // namespace hearth::coordinator

// SlowNodes: finds stages whose steps take much longer than before, for example because of a game,
// a lower clock or other load. It replaces them when other nodes can take their layers at once.
// Otherwise a slow node stays, because a slow answer is better than no answer.
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
  // Tells a spare with other layers on its disk to fetch this range.
  void prepare_spare(LayerRange layers);

  TimePoint look_at_{};  // then on_timer() looks for slow stages again
};

}  // namespace hearth::coordinator

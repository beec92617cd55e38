#include "node/engine/device.h"

#include <algorithm>

namespace hearth::node {

// Embedding and output stand at the ends, so that a stage in the middle takes no more.
Result<std::uint32_t> layers_within(const Device& device, const model::GgufFile& file,
                                    const model::ModelSpec& spec, EngineOptions options) {
  TRY(const std::uint64_t budget, device.budget());
  std::uint32_t fit = 0;
  for (; fit < spec.layers; ++fit) {
    std::uint64_t least = 0;
    for (const std::uint32_t begin : {0U, spec.layers - fit - 1}) {
      options.layers = {begin, begin + fit + 1};
      TRY(const StageMemory memory, device.memory(file, spec, options));
      least = std::max(least, memory.least());
    }
    if (least > budget) break;
  }
  return fit;
}

}  // namespace hearth::node

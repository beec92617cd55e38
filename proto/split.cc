#include "proto/split.h"

#include "base/check.h"

namespace hearth {

std::vector<LayerRange> split_layers(std::uint32_t layers, std::uint32_t stages) {
  INVARIANT(stages >= 1 && stages <= layers, "every stage needs a layer");
  std::vector<LayerRange> ranges;
  std::uint32_t begin = 0;
  for (std::uint32_t i = 0; i < stages; ++i) {
    const std::uint32_t size = layers / stages + (i < layers % stages ? 1 : 0);
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

}  // namespace hearth

#include "proto/split.h"

#include "base/check.h"

namespace hearth {

std::vector<LayerRange> split_layers(std::uint32_t layers, std::uint32_t stages) {
  return split_layers(layers, std::vector<std::uint32_t>(stages));
}

// Gives one layer at a time to the stage with the fewest that has room: equal shares, the first
// ones larger.
std::vector<LayerRange> split_layers(std::uint32_t layers, const std::vector<std::uint32_t>& most) {
  INVARIANT(!most.empty() && most.size() <= layers, "every stage needs a layer");
  std::vector<std::uint32_t> sizes(most.size());
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    std::size_t least = sizes.size();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool room = most[i] == 0 || sizes[i] < most[i];
      if (room && (least == sizes.size() || sizes[i] < sizes[least])) least = i;
    }
    if (least == sizes.size()) return {};
    ++sizes[least];
  }
  std::vector<LayerRange> ranges;
  std::uint32_t begin = 0;
  for (const std::uint32_t size : sizes) {
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

}  // namespace hearth

// The range of each node for one layer split, so that the slowest range is as quick as possible.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "placement/costs.h"

namespace hearth::placement {

constexpr std::uint32_t kNoRange = std::numeric_limits<std::uint32_t>::max();

// The range of each node; kNoRange of a node that holds no range, or that no link joins to a
// replica before it and one after it. `taken`: the same for nodes that keep the range they have, by
// node. A range may stay without a replica.
//
// Nodes that hold the fewest ranges choose first, of those the quickest, each the range with the
// fewest rows a second; then a node moves to the slowest range as long as that makes it quicker and
// the range it leaves no slower than that one was, and of up to 64 nodes two change places. For
// equal nodes the first step alone is exact. Steps for n nodes and R
// ranges: n R, and n for each of at most n moves, or n^2 of up to 64 nodes.
std::vector<std::uint32_t> replicate(const Costs& costs, const std::vector<LayerRange>& ranges,
                                     std::vector<std::uint32_t> taken);

// One node for each range, where there is one: the quickest for a row of those that hold it; the
// ranges that the fewest nodes hold choose first. For `taken`, where latency is the objective.
std::vector<std::uint32_t> quickest_each(const Costs& costs, const std::vector<LayerRange>& ranges);

}  // namespace hearth::placement

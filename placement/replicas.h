// The range of each node for one layer split, so that the slowest range is as quick as possible.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "placement/costs.h"

namespace hearth::placement {

constexpr std::uint32_t kNoRange = std::numeric_limits<std::uint32_t>::max();

// The range of each node. kNoRange: the node holds no range, or it has no link from any replica of
// the range before or none to any replica of the range after. `taken`: the ranges of nodes that
// keep theirs, by node. A range may stay without a replica.
//
// Nodes that hold the fewest ranges choose first, the quickest of them before others, each the
// range with the fewest rows a second. Then nodes move to the slowest range, as long as both that
// range and the one that a node leaves are afterwards quicker than the slowest range was. With up
// to 64 nodes, pairs also change places.
// For equal nodes the first step alone is exact. Steps for n nodes and R ranges: n R, and n for
// each of at most n moves, or n^2 of up to 64 nodes.
std::vector<std::uint32_t> replicate(const Costs& costs, const std::vector<LayerRange>& ranges,
                                     std::vector<std::uint32_t> taken);

// One node for each range that a node holds: the quickest for one row. Ranges that the fewest nodes
// hold choose first. For `taken`, when latency is the objective.
std::vector<std::uint32_t> quickest_each(const Costs& costs, const std::vector<LayerRange>& ranges);

}  // namespace hearth::placement

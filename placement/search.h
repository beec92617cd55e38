// The exact search over which nodes stand in which order with how many layers, for layers of equal
// size and at most limits::kExactNodes nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

// Work for n nodes: one search visits n 2^(n-1) sets with a first node and in each about n^2 / 4
// ends of orders: 30 million steps for 16 nodes, and as many again for the splits. Throughput adds
// 14 or so tests of whether a pace can be kept, of 4 million steps each, and where it is the way
// round that sets the pace 5 to 15 searches more; its pace is then the least but for one part in
// ten thousand.
//
// Null where no set of nodes holds the model. `layer_bytes`: what every layer is taken to have in
// memory. Nodes of the set `must` (a bit each) take part.
std::optional<std::vector<Stage>> search(const Problem& problem, std::uint64_t layer_bytes,
                                         std::uint32_t must = 0);

}  // namespace hearth::placement

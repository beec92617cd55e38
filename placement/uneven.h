// The exact search over which nodes stand in which order with which layers, for layers of any sizes
// and at most limits::kExactNodes nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

// `known`: a placement that is allowed, if there is one; what is not better is not looked for. Null
// where no placement is allowed at all. Nodes of the set `must` (a bit each) take part.
//
// Which layers a node takes decides what the next one holds, so that order and split are one
// search: for each first node over (nodes that stand, the last of them, where its layers end). Of
// that only what may be better than the best known is visited. Sets of nodes go by a bound: the
// shortest way round, and the layers given to the quickest as if they could be cut anywhere within
// what each node holds at most. Ways go by the same bound of what is left, with layers at a price.
//
// For n nodes and L layers the bounds take some n^3 2^n steps, and the ways where no bound ends any
// n^2 2^(n-2) rows of up to n L / 2 steps each: 4 million rows for 16 nodes, which are all visited
// if need be, so that the least latency is always exact. Throughput adds tests of whether a pace
// can be kept, of n^3 2^(n-3) steps each; its pace is the least of all, or where the way round sets
// it, the least but for one part in ten thousand, unless a million rows do not tell: then the best
// that was found counts.
std::optional<std::vector<Stage>> search_uneven(const Problem& problem,
                                                std::optional<std::vector<Stage>> known,
                                                std::uint32_t must = 0);

}  // namespace hearth::placement

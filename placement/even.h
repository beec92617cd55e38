// An even split of the layers, where it costs the objective nothing.
//
// One stream is as quick on equal nodes whichever of them has more layers, so the search returns
// any of those splits. But the slowest stage limits many streams, and the fullest one limits the
// positions of KV. even_out() keeps the nodes and their order.
#pragma once

#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

// Under Objective::kAuto an even split may cost this part of a single stream: equal nodes are never
// measured as quite equal. Under the other objectives it costs nothing.
constexpr double kEvenMargin = 0.01;

// Moves single layers from stage to stage while that lowers the pace of a batch, or keeps it and
// lowers the sum of the squares of the stages' seconds. Every stage keeps a layer and fits its
// node. A local search: at most S^2 moves are tried for each that is made. Pipelines of more than
// limits::kExactNodes stages stay as they are.
std::vector<Stage> even_out(const Problem& problem, std::vector<Stage> stages);

}  // namespace hearth::placement

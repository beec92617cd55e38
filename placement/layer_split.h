// The best split of the layers over nodes whose order is given.
#pragma once

#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

// The layers of `order` are ignored. The split minimises the sum of the stages' seconds for
// latency, and the slowest stage for throughput. Empty where no split fits into the nodes' memory.
// S L^2 / 2 steps for S stages and L layers.
std::vector<Stage> split_layers(const Problem& problem, const std::vector<Stage>& order);

}  // namespace hearth::placement

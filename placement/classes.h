// Classes of nodes that are alike in speed and memory, and the layer split for them.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/costs.h"

namespace hearth::placement {

struct NodeClass {
  std::vector<std::uint32_t> nodes;  // ascending
  Speed speed;                       // memory and KV budget: the minimum; seconds: the mean
};

constexpr std::size_t kMaxClasses = 5;  // 2^5 sets of classes

// At most kMaxClasses. Nodes form a class when their seconds a layer and their memory differ by at
// most a fifth. With too many classes the fifth becomes a half, the double, and so on. The first
// class has the most memory.
std::vector<NodeClass> classes_of(const Costs& costs);

// The boundaries of the ranges, from 0 to the number of layers, that maximise the rows a second of
// all nodes together, where each range has replicas of one class and the ranges of a class are
// neighbours. The result is the best over all orders of classes, to one part in 10^9; for one class
// of equal nodes it is the optimum. Empty where no such ranges hold the model.
//
// A pace is tested in two steps: the fewest nodes that a class needs from one boundary to every
// later one (a shortest path over boundaries), and how far each set of classes reaches (over all
// orders, as Held and Karp: a longer reach never costs anything). That is at most 80 paths over at
// most L^2 / 2 ranges for L layers, and 36 paces: 10 million steps for 80 layers.
std::vector<std::uint32_t> boundaries_for_classes(const Costs& costs,
                                                  const std::vector<NodeClass>& classes);

// An upper bound of the rows a second of any placement of these nodes: each node at its best range,
// with all layers divided among them without a remainder. So the loss of a placement against this
// bound is at least its loss against the best placement. One pass over nodes, each with up to L^2 /
// 2 ranges halved.
double bound_rows_per_second(const Costs& costs);

}  // namespace hearth::placement

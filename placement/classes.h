// Classes of nodes that are alike in speed and memory, and where a model is cut for them.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/costs.h"

namespace hearth::placement {

struct NodeClass {
  std::vector<std::uint32_t> nodes;  // ascending
  Speed speed;                       // memory and KV budget: the least of them; seconds: the mean
};

constexpr std::size_t kClassesMost = 5;

// At most kClassesMost: nodes whose layers take within a fifth of the same and whose memory is
// within a fifth of the same form a class; where those are too many the fifth becomes a half, the
// double, and so on. The first class has the most memory.
std::vector<NodeClass> classes_of(const Costs& costs);

// Where each range begins, then the number of layers: ranges for the most rows a second of all
// nodes together, where each range has replicas of one class and the ranges of a class are
// neighbours. Of all such cuts the best one in every order of classes, to one part in 10^9; for one
// class of equal nodes that is the best of all. Empty where no such cut holds the model.
//
// Whether a pace can be kept: nodes that a class needs from one boundary on to every later one (the
// fewest, a shortest path over boundaries), and how far a set of classes reaches (over all orders,
// as Held and Karp: who reaches further never loses by it). That is at most 80 paths over at most
// L^2 / 2 ranges for L layers, and 36 paces: 10 million steps for 80 layers.
std::vector<std::uint32_t> cut_for_classes(const Costs& costs,
                                           const std::vector<NodeClass>& classes);

// The most rows a second that any placement of these nodes can give: each node at its best range,
// all of their layers shared out without a rest. What a placement loses against the best one is at
// most what it loses against this. One pass over nodes, each with up to L^2 / 2 ranges halved.
double bound_rows_per_second(const Costs& costs);

}  // namespace hearth::placement

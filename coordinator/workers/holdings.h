// Holdings: which layers a node that has not the whole model should have on its disk, and which of
// the free nodes take which stage so that as little as possible is fetched.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "coordinator/workers/registry.h"

namespace hearth::coordinator {

struct HoldChoice {
  LayerRange layers;
  std::string why;  // a sentence
};

// `stages`: the ranges of a pipeline. What the node has on its disk already when that is one of
// them, else the first of those that the fewest `others` have or were told to have.
HoldChoice choose_holding(const std::vector<LayerRange>& stages, const Node& node,
                          const std::vector<const Node*>& others);

// All of these layers are on the node's disk.
bool holds(const NodeStatus& node, LayerRange layers);

// Two nodes say that a holder sent them wrong bytes: no node is told of it any more.
bool is_out(const Accusers& accusers);
// Whether a node may be told of a holder with these accusers. A node's own word counts for that
// node alone, since it may be the one that lies.
bool may_ask(const Accusers& accusers, const std::string& node);

// The nodes for the stages first, by stage, then the others: first those that hold what they would
// compute, then those that were told to, and then in their order, those with the whole file before
// those that have to fetch.
std::vector<Node*> arrange(const std::vector<LayerRange>& stages, std::vector<Node*> free);

}  // namespace hearth::coordinator

// Holdings: chooses the layers that a node without the whole model should store, and which free
// node takes which stage with the least fetching.
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

// `stages`: the ranges of a pipeline. The range on the node's disk if it is one of them, else the
// first of those that the fewest `others` have or were ordered to have.
HoldChoice choose_holding(const std::vector<LayerRange>& stages, const Node& node,
                          const std::vector<const Node*>& others);

// Whether all of these layers are on the node's disk.
bool holds(const NodeStatus& node, LayerRange layers);

// Whether at least two nodes accuse a holder of wrong bytes: then no node may fetch from it.
bool is_out(const Accusers& accusers);
// Whether a node may fetch from a holder with these accusers. A single accusation counts only for
// the accuser, which may be lying.
bool may_ask(const Accusers& accusers, const std::string& node);

// The nodes for the stages, by stage, then the others. Nodes that hold a stage's layers come first,
// then those ordered to hold them. The rest keep their order, those with the whole file before
// those that must fetch.
std::vector<Node*> arrange(const std::vector<LayerRange>& stages, std::vector<Node*> free);

}  // namespace hearth::coordinator

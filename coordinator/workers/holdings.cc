#include "coordinator/workers/holdings.h"

#include <algorithm>

#include "base/check.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

bool shares(const Node& node, LayerRange layers) {
  if (node.status.partial) return node.plan == layers;
  return node.status.epoch.value != 0 && node.status.layers == layers;
}

// Of that stage, where the node has no room for all of it.
LayerRange with_room(const std::vector<LayerRange>& stages, std::size_t stage,
                     std::uint32_t layers_most) {
  if (layers_most == 0 || layers_most >= stages[stage].size()) return stages[stage];
  std::vector<std::uint32_t> most(stages.size());
  most[stage] = layers_most;
  const std::vector<LayerRange> split = split_layers(stages.back().end, most);
  return split.empty() ? stages[stage] : split[stage];
}

}  // namespace

bool holds(const NodeStatus& node, LayerRange layers) {
  if (!node.partial) return true;
  return node.held_total > 0 && node.held_bytes == node.held_total &&
         layers.begin >= node.held.begin && layers.end <= node.held.end;
}

bool is_out(const Accusers& accusers) { return accusers.names.size() >= 2; }

bool may_ask(const Accusers& accusers, const std::string& node) {
  return !is_out(accusers) && !accusers.names.contains(node);
}

HoldChoice choose_holding(const std::vector<LayerRange>& stages, const Node& node,
                          const std::vector<const Node*>& others) {
  INVARIANT(!stages.empty(), "a model is split into at least one stage");
  std::vector<std::size_t> counts(stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (const Node* other : others) {
      if (other->status.name != node.status.name && shares(*other, stages[i])) ++counts[i];
    }
  }
  auto stage = static_cast<std::size_t>(std::ranges::min_element(counts) - counts.begin());
  const auto held = std::ranges::find(stages, node.status.held);
  if (held != stages.end()) stage = static_cast<std::size_t>(held - stages.begin());
  HoldChoice choice;
  choice.layers = with_room(stages, stage, node.status.layers_most);
  choice.why = message_of("stage ", stage + 1, " of ", stages.size(), ", the model's ",
                          stages.back().end, " layers in equal shares; ");
  if (held != stages.end()) {
    choice.why += "its disk has these already";
  } else if (counts[stage] == 0) {
    choice.why += "no other node holds these";
  } else {
    choice.why += "other nodes that hold these: " + std::to_string(counts[stage]);
  }
  return choice;
}

std::vector<Node*> arrange(const std::vector<LayerRange>& stages, std::vector<Node*> free) {
  std::vector<Node*> order(stages.size());
  const auto place = [&](const auto& fits) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (order[i] != nullptr) continue;
      const auto found =
          std::ranges::find_if(free, [&](Node* node) { return fits(*node, stages[i]); });
      if (found == free.end()) continue;
      order[i] = *found;
      free.erase(found);
    }
  };
  place([](const Node& node, LayerRange layers) {
    return node.status.partial && holds(node.status, layers);
  });
  place([](const Node& node, LayerRange layers) {
    return node.status.partial && (node.plan == layers || node.status.held == layers);
  });
  place([](const Node& node, LayerRange) { return !node.status.partial; });
  place([](const Node&, LayerRange) { return true; });
  std::erase(order, nullptr);
  order.insert(order.end(), free.begin(), free.end());
  return order;
}

}  // namespace hearth::coordinator

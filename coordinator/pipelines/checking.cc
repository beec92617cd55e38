#include "coordinator/pipelines/checking.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "coordinator/workers/holdings.h"

namespace hearth::coordinator {
namespace {

std::uint32_t room_of(const Node& node) { return node.status.layers_most - 1; }  // 0: any number

bool has_room(const Node& node, const LayerRange& layers) {
  return room_of(node) >= layers.size() - 1;
}

// Takes the best of them for these layers out of `nodes`; null: no node has room.
Node* take_best(std::vector<Node*>& nodes, const LayerRange& layers) {
  const auto cost = [&](const Node* node) {
    const bool loaded = node->loaded && node->status.layers == layers;
    const bool held = !node->status.partial || holds(node->status, layers);
    return std::tuple(!loaded, !held, room_of(*node));
  };
  auto best = nodes.end();
  for (auto at = nodes.begin(); at != nodes.end(); ++at) {
    if (!has_room(**at, layers)) continue;
    if (best == nodes.end() || cost(*at) < cost(*best)) best = at;
  }
  if (best == nodes.end()) return nullptr;
  Node* node = *best;
  nodes.erase(best);
  return node;
}

}  // namespace

std::optional<Placed> place_checkers(const std::vector<LayerRange>& cut,
                                     std::vector<Node*> newcomers, std::vector<Node*> spares,
                                     LayerRange* missing) {
  // The largest stage first: fewest have room for it.
  std::vector<std::size_t> order(cut.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t stage) { return cut[stage].size(); });
  Placed placed{std::vector<Node*>(cut.size()), cut};
  bool any = false;
  for (const std::size_t stage : order) {
    Node* node = take_best(newcomers, cut[stage]);
    any = any || node != nullptr;
    if (node == nullptr) node = take_best(spares, cut[stage]);
    if (node == nullptr) {
      if (missing != nullptr) *missing = cut[stage];
      return std::nullopt;
    }
    placed.nodes[stage] = node;
  }
  INVARIANT(std::ranges::count(placed.nodes, nullptr) == 0, "each stage has a node");
  return any ? std::optional(std::move(placed)) : std::nullopt;
}

std::string dues_text(const ledger::Policy& policy, const std::optional<NodeStanding>& standing) {
  const NodeStanding one = standing.value_or(NodeStanding());
  return std::to_string(one.checks) + " of " + std::to_string(policy.newcomer_audits) +
         " windows, on " + std::to_string(one.check_days) + " of " +
         std::to_string(policy.newcomer_days) + " days";
}

}  // namespace hearth::coordinator

#include "coordinator/pipelines/groups.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/check.h"
#include "placement/parts.h"
#include "proto/address.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

std::string machine_of_rank(const Node& node) {
  const auto address = parse_address(node.status.rank_address);
  return address.ok() ? address->host : node.status.rank_address;
}

placement::RankFigures figures_of(const Node& node) {
  placement::RankFigures figures{node.status.weight_bytes_per_second, ~std::uint64_t{0}};
  if (node.status.measured) {
    figures.memory_bytes = node.status.measured->memory_bytes;
    const double seconds = node.status.measured->layer.one;
    if (seconds > 0.0) figures.speed = 1.0 / seconds;
  }
  if (!(figures.speed > 0.0)) figures.speed = 1.0;
  return figures;
}

// Of weights and KV; 0: unknown.
std::uint64_t bytes_of(const CoordinatorOptions& options, LayerRange layers) {
  if (!options.placement) return 0;
  placement::Problem problem;
  problem.model = options.placement->model;
  problem.kv_tokens = options.placement->kv_tokens;
  return placement::stage_bytes(problem, layers);
}

bool is_mixed(const std::vector<Node*>& seats, std::uint32_t ranks) {
  for (std::size_t i = 0; i < seats.size(); ++i) {
    if (seats[i]->owner != seats[i - i % ranks]->owner) return true;
  }
  return false;
}

// Takes out the workers for whom their owner has too few for a group.
void keep_groups_of_owners(std::vector<Node*>& able, std::uint32_t ranks) {
  std::map<std::string, std::size_t> left;
  for (const Node* node : able) ++left[node->owner];
  if (left.size() < 2) return;
  for (auto& [owner, count] : left) count -= count % ranks;
  std::vector<Node*> kept;
  for (Node* node : able) {
    std::size_t& count = left[node->owner];
    if (count == 0) continue;
    --count;
    kept.push_back(node);
  }
  able = std::move(kept);
  std::ranges::stable_sort(able, {}, &Node::owner);
}

// Every place of the pipeline with its node, by stage and rank. `free` has enough of them, and as
// many of each owner as groups take. `keeps_places`: nodes that have loaded a share keep it.
std::vector<Node*> seat(const CoordinatorOptions& options, const std::vector<LayerRange>& layers,
                        const std::vector<Node*>& free, bool keeps_places) {
  std::vector<Node*> seats(layers.size() * options.ranks);
  std::vector<Node*> others;
  for (Node* node : free) {
    const NodeStatus& status = node->status;
    const bool has_place = keeps_places && node->loaded && status.ranks == options.ranks &&
                           status.stage < layers.size() && status.layers == layers[status.stage];
    Node** place = has_place ? &seats[status.stage * options.ranks + status.rank] : nullptr;
    if (place != nullptr && *place == nullptr) {
      *place = node;
    } else {
      others.push_back(node);
    }
  }
  const auto open = static_cast<std::size_t>(std::ranges::count(seats, nullptr));
  INVARIANT(others.size() >= open, "each place has a free node");
  others.resize(open);
  std::ranges::sort(others, {}, [](const Node* node) {
    return std::tuple(node->owner, machine_of_rank(*node), node->status.name);
  });
  auto next = others.begin();
  for (Node*& place : seats) {
    if (place == nullptr) place = *next++;
  }
  if (keeps_places && is_mixed(seats, options.ranks)) return seat(options, layers, free, false);
  INVARIANT(!is_mixed(seats, options.ranks), "a group has workers of one owner");
  return seats;
}

// Empty: a group's memory does not hold its layers.
std::vector<GroupedStage> divide_stages(const CoordinatorOptions& options,
                                        const std::vector<LayerRange>& layers,
                                        const std::vector<Node*>& seats) {
  std::vector<GroupedStage> stages;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    GroupedStage& one = stages.emplace_back();
    one.layers = layers[stage];
    std::vector<placement::RankFigures> figures;
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
      one.nodes.push_back(seats[stage * options.ranks + rank]);
      figures.push_back(figures_of(*one.nodes.back()));
    }
    one.parts = placement::divide_parts(figures, bytes_of(options, one.layers));
    if (one.parts.empty()) return {};
  }
  return stages;
}

}  // namespace

Grouping choose_groups(const CoordinatorOptions& options, const LinkBook& ways,
                       const std::vector<Node*>& free) {
  INVARIANT(options.ranks > 1, "a group has more than one rank");
  std::vector<Node*> able;
  std::size_t unmeasured = 0;
  std::size_t closed = 0;
  for (Node* node : free) {
    if (ways.is_closed(*node)) ++closed;
    if (node->status.rank_address.empty() || ways.is_closed(*node)) continue;
    const bool ready = !options.placement || node->status.measured;
    if (ready) able.push_back(node);
    if (!ready) ++unmeasured;
  }
  Grouping out;
  const std::size_t found = able.size();
  keep_groups_of_owners(able, options.ranks);
  const auto groups = static_cast<std::uint32_t>(able.size() / options.ranks);
  const std::uint32_t least = std::max(1U, options.stages);
  out.waiting = message_of("each stage takes ", options.ranks,
                           " workers that can compute in a group, and ", able.size(), " are free");
  if (unmeasured > 0) out.waiting += message_of(" (", unmeasured, " more are being measured)");
  if (closed > 0) {
    out.waiting += message_of(
        "; ", closed, " more cannot be dialled by the others: ranks of a group use no relay");
  }
  if (able.size() < found) {
    out.waiting += message_of("; ", found - able.size(),
                              " more have owners with too few for a group, which has one owner");
  }
  if (groups < least) return out;
  const std::uint32_t most = options.stages > 0 ? options.stages : std::min(groups, options.layers);
  for (std::uint32_t stages = least; stages <= most; ++stages) {
    const std::vector<LayerRange> layers = split_layers(options.layers, stages);
    out.stages = divide_stages(options, layers, seat(options, layers, able, true));
    if (!out.stages.empty()) break;
  }
  if (out.stages.empty()) {
    out.waiting = message_of("the memory of ", able.size(), " free workers in groups of ",
                             options.ranks, " does not hold the model");
  } else {
    out.waiting.clear();
  }
  return out;
}

}  // namespace hearth::coordinator

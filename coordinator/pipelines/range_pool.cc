#include "coordinator/pipelines/range_pool.h"

#include <algorithm>
#include <utility>

#include "coordinator/workers/holdings.h"
#include "placement/costs.h"
#include "placement/replicas.h"
#include "placement/route.h"

namespace hearth::coordinator {
namespace {

using placement::kNoRange;
using placement::Problem;
using placement::Stage;

// More than any way can take: a node that has loaded its layers goes before one that has not.
constexpr double kLoadingSeconds = 1e4;
// Against the quickest pipeline of the plan; one that is slower would hold nodes that others want.
constexpr double kSlowest = 8.0;

// What the node would compute without loading, or without fetching, anything.
bool has(const Node& node, LayerRange layers) {
  if (node.loaded) return node.status.layers == layers;
  return node.status.partial && node.status.held == layers && holds(node.status, layers);
}

}  // namespace

bool doubtful(const Node& node) {
  return node.strikes > 0 || node.late || node.slow || node.unreceipted;
}

std::vector<Node*> placeable(const std::vector<Node*>& nodes, bool all) {
  std::vector<Node*> some;
  for (Node* node : nodes) {
    if (node->status.measured && (all || !doubtful(*node))) some.push_back(node);
  }
  return some;
}

Placed placed_on(const std::vector<Node*>& nodes, const std::vector<Stage>& stages) {
  Placed placed;
  for (const Stage& stage : stages) {
    placed.nodes.push_back(nodes[stage.node]);
    placed.layers.push_back(stage.layers);
    std::vector<PlacedRank>& group = placed.groups.emplace_back();
    for (const placement::Rank& rank : stage.group) group.push_back({nodes[rank.node], rank.part});
  }
  return placed;
}

Problem problem_without_links(const CoordinatorOptions& options, const std::vector<Node*>& nodes) {
  Problem problem;
  problem.model = options.placement->model;
  problem.kv_tokens = options.placement->kv_tokens;
  problem.objective = options.placement->objective;
  problem.stages = options.stages;
  for (const Node* node : nodes) problem.nodes.push_back(*node->status.measured);
  return problem;
}

Problem RangePool::problem_of(const std::vector<Node*>& nodes) const {
  Problem problem = problem_without_links(options_, nodes);
  problem.links = links_.between({nodes.begin(), nodes.end()});
  return problem;
}

void RangePool::adopt(const placement::Chains& chains, const std::vector<std::string>& names) {
  drop();
  ranges_ = chains.ranges;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (chains.range_of[i] != kNoRange) planned_[names[i]] = chains.range_of[i];
  }
  seconds_most_ = kSlowest * chains.pipelines.front().seconds;
}

void RangePool::drop() {
  ranges_.clear();
  planned_.clear();
  spares_.clear();
}

std::uint32_t RangePool::loaded_range(const Node& node) const {
  const auto range =
      std::ranges::find_if(ranges_, [&](LayerRange layers) { return has(node, layers); });
  return range == ranges_.end() ? kNoRange : static_cast<std::uint32_t>(range - ranges_.begin());
}

std::uint32_t RangePool::range_of(const Node& node, Keep keep) const {
  if (keep == Keep::kNobody) return kNoRange;
  const std::uint32_t loaded = loaded_range(node);
  if (loaded != kNoRange || keep == Keep::kLoaded) return loaded;
  const auto planned = planned_.find(node.status.name);
  return planned == planned_.end() ? kNoRange : planned->second;
}

std::optional<Placed> RangePool::way_through(const std::vector<Node*>& nodes, Keep keep,
                                             bool beside) const {
  if (nodes.size() < ranges_.size()) return std::nullopt;
  const Problem problem = problem_of(nodes);
  const placement::Costs costs(problem);
  std::vector<std::uint32_t> taken;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const std::uint32_t range = range_of(*nodes[i], keep);
    taken.push_back(range != kNoRange && costs.fits(i, ranges_[range]) ? range : kNoRange);
  }
  const std::vector<std::uint32_t> given = placement::replicate(costs, ranges_, std::move(taken));
  std::vector<Stage> offers;
  std::vector<double> waits;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    if (given[i] == kNoRange) continue;
    offers.push_back({i, ranges_[given[i]]});
    waits.push_back(has(*nodes[i], ranges_[given[i]]) ? 0.0 : kLoadingSeconds);
  }
  const auto way = placement::quickest_route(problem, offers, waits);
  if (!way) return std::nullopt;
  if (beside && placement::ring_seconds(problem, way->stages, 1.0) > seconds_most_) {
    return std::nullopt;
  }
  return placed_on(nodes, way->stages);
}

std::optional<Placed> RangePool::next(const std::vector<Node*>& free, bool beside) {
  spares_.clear();
  for (const auto& [keep, all] :
       {std::pair(Keep::kLoadedAndPlanned, false), std::pair(Keep::kLoaded, false),
        std::pair(Keep::kLoadedAndPlanned, true), std::pair(Keep::kLoaded, true),
        std::pair(Keep::kNobody, false), std::pair(Keep::kNobody, true)}) {
    auto placed = way_through(placeable(free, all), keep, beside);
    if (placed) return placed;
  }
  say_why(free);
  return std::nullopt;
}

std::optional<Placed> RangePool::with_what_is_there(const std::vector<Node*>& nodes) const {
  return way_through(placeable(nodes, true), Keep::kLoadedAndPlanned, false);
}

void RangePool::say_why(const std::vector<Node*>& free) {
  for (const Node* node : free) {
    std::string& why = spares_[node->status.name];
    if (!node->status.measured) {
      why = "it has not measured itself";
      continue;
    }
    const std::uint32_t range = range_of(*node, Keep::kLoadedAndPlanned);
    why = range == kNoRange ? "it waits" : "it waits with layers " + text_of(ranges_[range]);
    why += " until a pipeline loses a stage, or until other nodes form one more pipeline with it";
  }
}

std::string RangePool::why_spare(const std::string& node) const {
  const auto found = spares_.find(node);
  return found == spares_.end() ? "" : found->second;
}

}  // namespace hearth::coordinator

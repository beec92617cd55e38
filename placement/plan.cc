#include "placement/plan.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/limits.h"
#include "placement/even.h"
#include "placement/groups.h"
#include "placement/search.h"

namespace hearth::placement {
namespace {

// With more nodes the alternatives to a plan are searched for with less effort.
constexpr std::size_t kExactAlternatives = 12;
static_assert(kExactAlternatives <= limits::kExactNodes);

Effort effort_for(std::size_t nodes) {
  return nodes <= kExactAlternatives ? Effort::kExact : Effort::kOrders;
}

Problem part_of(const Problem& problem, const std::vector<std::uint32_t>& nodes) {
  Problem part = problem;
  part.nodes.clear();
  part.links.clear();
  part.islands.clear();
  for (const std::uint32_t from : nodes) {
    part.nodes.push_back(problem.nodes[from]);
    if (!problem.islands.empty()) part.islands.push_back(problem.islands[from]);
    for (const std::uint32_t to : nodes) part.links.push_back(problem.link(from, to));
  }
  return part;
}

std::vector<Stage> numbered_as(const std::vector<std::uint32_t>& nodes, std::vector<Stage> stages) {
  for (Stage& stage : stages) {
    INVARIANT(stage.node < nodes.size(), "a stage is on one of the part's nodes");
    stage.node = nodes[stage.node];
    for (Rank& rank : stage.group) rank.node = nodes[rank.node];
  }
  return stages;
}

// The nodes that the exact search considers: the quickest, or where those have too little memory
// the nodes with the most memory.
std::vector<std::vector<std::uint32_t>> candidates(const Problem& problem) {
  std::vector<std::uint32_t> nodes(problem.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0U);
  if (nodes.size() <= limits::kExactNodes) return {nodes};
  const auto first = [&](auto before) {
    std::vector<std::uint32_t> sorted = nodes;
    std::ranges::stable_sort(sorted, before);
    sorted.resize(limits::kExactNodes);
    return sorted;
  };
  const bool latency = problem.objective != Objective::kThroughput;
  const auto seconds = [&](std::uint32_t node) {
    const RowSeconds& layer = problem.nodes[node].layer;
    return latency ? layer.one : layer.batch;
  };
  return {first([&](auto a, auto b) { return seconds(a) < seconds(b); }),
          first([&](auto a, auto b) {
            return problem.nodes[a].memory_bytes > problem.nodes[b].memory_bytes;
          })};
}

Spare why_spare(const Problem& problem, const std::vector<std::uint32_t>& nodes,
                const std::vector<Stage>& stages, std::uint32_t spare) {
  if (std::ranges::find(nodes, spare) == nodes.end()) return {spare};
  if (const auto no_layer = holds_no_layer(problem, spare)) return *no_layer;
  const Problem part = part_of(problem, nodes);
  const auto place = [&](std::uint32_t node) {
    const auto found = std::ranges::find(nodes, node) - nodes.begin();
    INVARIANT(found < static_cast<std::ptrdiff_t>(nodes.size()), "a stage is on a searched node");
    return static_cast<std::uint32_t>(found);
  };
  // Groups stay as they are.
  std::vector<std::vector<Rank>> groups;
  for (const Stage& stage : stages) {
    if (stage.group.empty()) continue;
    groups.push_back(stage.group);
    for (Rank& rank : groups.back()) rank.node = place(rank.node);
  }
  const Grouped grouped(part, groups);
  const auto bit = [&](std::uint32_t node) {
    return std::uint32_t{1} << grouped.node_with(place(node));
  };
  std::uint32_t all = bit(spare);
  for (const Stage& stage : stages) all |= bit(stage.node);
  Spare why{spare, SpareReason::kAdded};
  const Effort effort = effort_for(grouped.problem().nodes.size());
  auto with = search(grouped.problem(), all, effort);
  if (!with) {
    why.reason = SpareReason::kExchanged;
    with = search(grouped.problem(), bit(spare), effort);
  }
  if (!with) return {spare, SpareReason::kNotLinked};
  why.tokens_per_second = rate_of(problem, predict(problem, stages));
  why.with_tokens_per_second = rate_of(part, predict(grouped.problem(), *with));
  return why;
}

struct Placed {
  std::vector<std::uint32_t> nodes;  // that were considered
  std::vector<Stage> stages;
};

// Whether the nodes' memory has room for kAutoPositions. A budget for KV does not count: what it
// keeps of a node's memory, more pipelines keep as well.
bool has_room(Problem problem, const std::vector<Stage>& stages) {
  for (Node& node : problem.nodes) node.kv_budget_bytes = Node().kv_budget_bytes;
  return predict(problem, even_out(problem, stages)).kv_tokens >= kAutoPositions;
}

// Under Objective::kAuto, of the pipelines that cost at most kAutoMargin of the best one: that of
// the fewest stages with room for kAutoPositions, or where none has so much, of the fewest stages.
std::vector<Stage> with_fewest_stages(const Problem& problem, std::vector<Stage> best,
                                      Effort effort) {
  if (problem.objective != Objective::kAuto || problem.stages != 0) return best;
  const double most = kAutoMargin * cost_seconds(problem, best);
  const std::size_t stages_most = std::min<std::size_t>(problem.nodes.size(), problem.layers());
  std::vector<Stage> fewest;
  Problem fixed = problem;
  for (fixed.stages = 1; fixed.stages <= stages_most; ++fixed.stages) {
    auto found = fixed.stages == best.size() ? best : search(fixed, 0, effort);
    const bool is_near = found && cost_seconds(problem, *found) <= most;
    if (!is_near && fixed.stages > best.size()) break;  // further stages cost more
    if (!is_near) continue;
    if (has_room(problem, *found)) return *std::move(found);
    if (fewest.empty()) fewest = *std::move(found);
  }
  return fewest;
}

Result<Placed> placed(const Problem& problem, Effort effort) {
  TRY_VOID(check(problem));
  for (const std::vector<std::uint32_t>& nodes : candidates(problem)) {
    const Problem part = part_of(problem, nodes);
    auto stages = search(part, 0, effort);
    const bool found = stages.has_value();
    if (!part.islands.empty()) {
      auto groups = search_groups(part, found ? *stages : std::vector<Stage>{});
      if (groups) return Placed{nodes, numbered_as(nodes, even_out(part, std::move(*groups)))};
    }
    if (!found) continue;
    std::vector<Stage> fewest = with_fewest_stages(part, *std::move(stages), effort);
    return Placed{nodes, numbered_as(nodes, even_out(part, std::move(fewest)))};
  }
  return no_placement(problem);
}

double rate_after(const Problem& changed) {
  const auto one = placed(changed, effort_for(changed.nodes.size()));
  return one.ok() ? rate_of(changed, predict(changed, one->stages)) : 0.0;
}

}  // namespace

Result<std::vector<Stage>> place(const Problem& problem) {
  TRY(Placed one, placed(problem, Effort::kExact));
  return std::move(one.stages);
}

Result<Plan> plan(const Problem& problem) {
  TRY(Placed one, placed(problem, Effort::kExact));
  Plan plan;
  plan.stages = std::move(one.stages);
  plan.prediction = predict(problem, plan.stages);
  INVARIANT(plan.stages.size() <= problem.nodes.size(), "no node has two stages");
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    bool used = false;
    for (const Stage& stage : plan.stages) {
      stage.for_each_node([&](std::uint32_t of_stage) { used = used || of_stage == node; });
    }
    if (!used) plan.spares.push_back(why_spare(problem, one.nodes, plan.stages, node));
  }
  return plan;
}

Result<std::vector<std::vector<Stage>>> place_replicas(const Problem& problem) {
  std::vector<std::uint32_t> left(problem.nodes.size());
  std::iota(left.begin(), left.end(), 0U);
  std::vector<std::vector<Stage>> pipelines;
  while (!left.empty()) {
    auto stages = place(part_of(problem, left));
    if (!stages.ok() && pipelines.empty()) return stages.error();
    if (!stages.ok()) break;
    pipelines.push_back(numbered_as(left, std::move(*stages)));
    for (const Stage& stage : pipelines.back()) {
      stage.for_each_node([&](std::uint32_t node) { std::erase(left, node); });
    }
  }
  INVARIANT(pipelines.size() <= problem.nodes.size(), "every pipeline takes a node");
  return pipelines;
}

Result<std::vector<Plan>> plan_replicas(const Problem& problem) {
  TRY(Plan first, plan(problem));
  std::vector<Plan> plans{std::move(first)};
  while (true) {
    INVARIANT(plans.size() <= problem.nodes.size(), "every pipeline takes a node");
    std::vector<std::uint32_t> nodes;
    for (const Spare& spare : plans.back().spares) nodes.push_back(spare.node);
    if (nodes.empty()) return plans;
    auto next = plan(part_of(problem, nodes));
    if (!next.ok()) return plans;
    next->stages = numbered_as(nodes, std::move(next->stages));
    for (Spare& spare : next->spares) spare.node = nodes[spare.node];
    plans.push_back(std::move(*next));
  }
}

std::vector<Gain> improvements(const Problem& problem, const Plan& plan) {
  std::vector<std::vector<std::uint32_t>> nodes;
  for (const Stage& stage : plan.stages) {
    std::vector<std::uint32_t>& together = nodes.emplace_back();
    stage.for_each_node([&](std::uint32_t node) { together.push_back(node); });
  }
  const bool linked = nodes.size() > 1 || nodes.front().size() > 1;
  return largest_gains(problem, rate_of(problem, plan.prediction), nodes, linked, rate_after);
}

}  // namespace hearth::placement

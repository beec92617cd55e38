#include "placement/plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "base/limits.h"
#include "placement/search.h"
#include "placement/words.h"

namespace hearth::placement {
namespace {

constexpr std::size_t kExactWords = 12;  // nodes; of more, what else there could be is less exact

Effort effort_for(std::size_t nodes) {
  return nodes <= kExactWords ? Effort::kExact : Effort::kOrders;
}

double rate_of(const Problem& problem, const Prediction& prediction) {
  return problem.objective == Objective::kLatency ? prediction.tokens_per_second
                                                  : prediction.all_tokens_per_second;
}

Problem part_of(const Problem& problem, const std::vector<std::uint32_t>& nodes) {
  Problem part = problem;
  part.nodes.clear();
  part.links.clear();
  for (const std::uint32_t from : nodes) {
    part.nodes.push_back(problem.nodes[from]);
    for (const std::uint32_t to : nodes) part.links.push_back(problem.link(from, to));
  }
  return part;
}

std::vector<Stage> numbered_as(const std::vector<std::uint32_t>& nodes, std::vector<Stage> stages) {
  for (Stage& stage : stages) stage.node = nodes[stage.node];
  return stages;
}

// Those that the exact search looks at: the quickest, or where they have too little memory those
// that have the most.
std::vector<std::vector<std::uint32_t>> candidates(const Problem& problem) {
  std::vector<std::uint32_t> nodes(problem.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0U);
  if (nodes.size() <= limits::kExactNodes) return {nodes};
  const auto first = [&](auto before) {
    std::vector<std::uint32_t> sorted = nodes;
    std::stable_sort(sorted.begin(), sorted.end(), before);
    sorted.resize(limits::kExactNodes);
    return sorted;
  };
  const bool latency = problem.objective == Objective::kLatency;
  const auto seconds = [&](std::uint32_t node) {
    const RowSeconds& layer = problem.nodes[node].layer;
    return latency ? layer.one : layer.batch;
  };
  return {first([&](auto a, auto b) { return seconds(a) < seconds(b); }),
          first([&](auto a, auto b) {
            return problem.nodes[a].memory_bytes > problem.nodes[b].memory_bytes;
          })};
}

std::string why_spare(const Problem& problem, const std::vector<std::uint32_t>& nodes,
                      const std::vector<Stage>& stages, std::uint32_t spare) {
  if (std::find(nodes.begin(), nodes.end(), spare) == nodes.end()) {
    return "not looked at: the search sees " + std::to_string(limits::kExactNodes) + " nodes of " +
           std::to_string(problem.nodes.size());
  }
  if (auto why = why_no_layer(problem, spare)) return *why;
  const Problem part = part_of(problem, nodes);
  const auto bit = [&](std::uint32_t node) {
    const auto place = std::find(nodes.begin(), nodes.end(), node) - nodes.begin();
    return std::uint32_t{1} << place;
  };
  std::uint32_t all = bit(spare);
  for (const Stage& stage : stages) all |= bit(stage.node);
  std::string what = "adding it makes the whole ";
  const Effort effort = effort_for(nodes.size());
  auto with = search(part, all, effort);
  if (!with) {
    what = "in place of another it makes the whole ";
    with = search(part, bit(spare), effort);
  }
  if (!with) return "no pipeline with it holds the model over links that were measured";
  const double rate = rate_of(problem, predict(problem, stages));
  const double after = rate_of(part, predict(part, *with));
  return what + (after < 0.999 * rate ? "slower: " : "no quicker: ") + rate_text(after) +
         " instead of " + rate_text(rate) + " tokens/s";
}

struct Placed {
  std::vector<std::uint32_t> nodes;  // that were looked at
  std::vector<Stage> stages;
};

Result<Placed> placed(const Problem& problem, Effort effort) {
  TRY_VOID(check(problem));
  for (const std::vector<std::uint32_t>& nodes : candidates(problem)) {
    const auto stages = search(part_of(problem, nodes), 0, effort);
    if (stages) return Placed{nodes, numbered_as(nodes, *stages)};
  }
  return no_room(problem);
}

void consider(const Problem& changed, const std::string& change, Gains& gains) {
  const auto one = placed(changed, effort_for(changed.nodes.size()));
  if (one.ok()) gains.add(change, rate_of(changed, predict(changed, one->stages)));
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
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const bool used = std::any_of(plan.stages.begin(), plan.stages.end(),
                                  [&](const Stage& stage) { return stage.node == node; });
    if (!used) plan.spares.push_back({node, why_spare(problem, one.nodes, plan.stages, node)});
  }
  return plan;
}

Result<std::vector<Plan>> plan_replicas(const Problem& problem) {
  TRY(Plan first, plan(problem));
  std::vector<Plan> plans{std::move(first)};
  while (true) {
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

std::vector<std::string> improvements(const Problem& problem, const Plan& plan) {
  Gains gains(rate_of(problem, plan.prediction));
  for (const Stage& stage : plan.stages) {
    Problem changed = problem;
    Node& node = changed.nodes[stage.node];
    node.memory_bytes *= 2;
    consider(changed, "twice the memory in " + node.name, gains);
    node.memory_bytes /= 2;
    node.layer = {node.layer.one / 2, node.layer.batch / 2};
    node.head = {node.head.one / 2, node.head.batch / 2};
    consider(changed, "a machine twice as fast in place of " + node.name, gains);
  }
  if (plan.stages.size() > 1) {
    Problem changed = problem;
    for (Link& link : changed.links) link.bytes_per_second *= 10;
    consider(changed, "links of ten times the rate", gains);
    for (Link& link : changed.links) {
      link = {link.delay_seconds / 2, link.bytes_per_second / 10};
    }
    consider(changed, "half the delay of every link", gains);
  }
  return gains.largest();
}

}  // namespace hearth::placement

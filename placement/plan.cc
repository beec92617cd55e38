#include "placement/plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "base/limits.h"
#include "placement/search.h"
#include "placement/uneven.h"
#include "placement/words.h"

namespace hearth::placement {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kExactWords = 12;  // nodes; of more, what else there could be is less exact

double rate_of(const Problem& problem, const Prediction& prediction) {
  return problem.objective == Objective::kLatency ? prediction.tokens_per_second
                                                  : prediction.all_tokens_per_second;
}

bool all_fit(const Problem& problem, const std::vector<Stage>& stages) {
  return std::all_of(stages.begin(), stages.end(),
                     [&](const Stage& stage) { return fits(problem, stage); });
}

// The best split for the nodes in this order: of all ends of the first stages, which end makes the
// sum of the stages (or the slowest of them) least. Empty where no split fits.
std::vector<Stage> split(const Problem& problem, const std::vector<Stage>& order) {
  const std::uint32_t layers = problem.layers();
  const bool latency = problem.objective == Objective::kLatency;
  const double rows = latency ? 1.0 : problem.batch_rows;
  const std::size_t count = order.size();
  std::vector<std::vector<double>> cost(count + 1, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<std::uint32_t>> begins(count, std::vector<std::uint32_t>(layers + 1));
  cost[0][0] = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::uint32_t end = static_cast<std::uint32_t>(i) + 1; end <= layers; ++end) {
      for (std::uint32_t begin = end; begin-- > 0;) {
        const Stage stage{order[i].node, {begin, end}};
        if (!fits(problem, stage)) break;
        if (cost[i][begin] == kNever) continue;
        const double seconds = stage_seconds(problem, stage, rows);
        const double sum = latency ? cost[i][begin] + seconds : std::max(cost[i][begin], seconds);
        if (sum >= cost[i + 1][end]) continue;
        cost[i + 1][end] = sum;
        begins[i][end] = begin;
      }
    }
  }
  if (cost[count][layers] == kNever) return {};
  std::vector<Stage> stages = order;
  std::uint32_t end = layers;
  for (std::size_t i = count; i-- > 0;) {
    stages[i].layers = {begins[i][end], end};
    end = begins[i][end];
  }
  return stages;
}

// Of layers of different sizes a good placement is known from three searches for equal ones, and
// what is better is looked for: as large as the largest they always fit; taken as smaller ones they
// let an order be found that fits only where the large ones are elsewhere.
std::optional<std::vector<Stage>> best(const Problem& problem, std::uint32_t must, bool exact) {
  const auto& bytes = problem.model.layer_bytes;
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  if (*least == *most) return search(problem, *most, must);
  const auto mean = static_cast<std::uint64_t>(problem.model.mean_layer_bytes());
  std::optional<std::vector<Stage>> best;
  for (const std::uint64_t each : {*most, mean, *least}) {
    const auto found = search(problem, each, must);
    if (!found) continue;
    for (std::vector<Stage> stages : {*found, split(problem, *found)}) {
      if (stages.empty() || !all_fit(problem, stages)) continue;
      if (best && cost_seconds(problem, stages) >= cost_seconds(problem, *best)) continue;
      best = std::move(stages);
    }
  }
  if (!exact) return best;
  return search_uneven(problem, std::move(best), must);
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
  const bool exact = nodes.size() <= kExactWords;
  auto with = best(part, all, exact);
  if (!with) {
    what = "in place of another it makes the whole ";
    with = best(part, bit(spare), exact);
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

Result<Placed> placed(const Problem& problem, bool exact) {
  TRY_VOID(check(problem));
  for (const std::vector<std::uint32_t>& nodes : candidates(problem)) {
    const auto stages = best(part_of(problem, nodes), 0, exact);
    if (stages) return Placed{nodes, numbered_as(nodes, *stages)};
  }
  return no_room(problem);
}

void consider(const Problem& changed, const std::string& change, Gains& gains) {
  const auto one = placed(changed, changed.nodes.size() <= kExactWords);
  if (one.ok()) gains.add(change, rate_of(changed, predict(changed, one->stages)));
}

}  // namespace

Result<std::vector<Stage>> place(const Problem& problem) {
  TRY(Placed one, placed(problem, true));
  return std::move(one.stages);
}

Result<Plan> plan(const Problem& problem) {
  TRY(Placed one, placed(problem, true));
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

#include "placement/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/check.h"
#include "placement/classes.h"
#include "placement/costs.h"
#include "placement/replicas.h"
#include "placement/shortage.h"

namespace hearth::placement {
namespace {

constexpr std::uint32_t kMaxEqualRanges = 64;
// Figures within these factors of the best count as equal; the other figure then decides.
constexpr double kAlikeThroughput = 1.02;
constexpr double kAlikeLatency = 1.05;
// The longest route through a replica, relative to the quickest route. A slower replica is left
// out; for throughput only where the slowest range is as quick without it.
constexpr double kDetourOfLatency = 1.25;
constexpr double kDetourOfThroughput = 2.0;
constexpr std::uint32_t kRefinements = 8;

std::vector<LayerRange> ranges_between(const std::vector<std::uint32_t>& boundaries) {
  std::vector<LayerRange> ranges;
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i)
    ranges.push_back({boundaries[i], boundaries[i + 1]});
  return ranges;
}

// `count` ranges of about the same weight.
std::vector<LayerRange> equal_ranges(const Costs& costs, std::uint32_t count) {
  const std::uint32_t layers = costs.layers();
  const double all = costs.weight({0, layers});
  std::vector<std::uint32_t> boundaries{0};
  for (std::uint32_t i = 1; i < count; ++i) {
    std::uint32_t end = boundaries.back() + 1;
    const auto off = [&](std::uint32_t at) {
      return std::abs(costs.weight({0, at}) - all * i / count);
    };
    while (end < layers - (count - i) && off(end + 1) <= off(end)) ++end;
    boundaries.push_back(end);
  }
  boundaries.push_back(layers);
  INVARIANT(boundaries.size() == std::size_t{count} + 1, "as many ranges as were asked for");
  return ranges_between(boundaries);
}

// The splits with one boundary moved by a layer and, where their number is free, one boundary
// removed or added.
std::vector<std::vector<std::uint32_t>> neighbours_of(const std::vector<std::uint32_t>& boundaries,
                                                      bool any_number) {
  std::vector<std::vector<std::uint32_t>> all;
  for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) {
    std::vector<std::uint32_t> other = boundaries;
    if (boundaries[i] - 1 > boundaries[i - 1]) {
      other[i] = boundaries[i] - 1;
      all.push_back(other);
    }
    if (boundaries[i] + 1 < boundaries[i + 1]) {
      other[i] = boundaries[i] + 1;
      all.push_back(other);
    }
    if (!any_number) continue;
    other = boundaries;
    other.erase(other.begin() + static_cast<std::ptrdiff_t>(i));
    all.push_back(std::move(other));
  }
  for (std::size_t i = 0; any_number && i + 1 < boundaries.size(); ++i) {
    if (boundaries[i + 1] - boundaries[i] < 2) continue;
    std::vector<std::uint32_t> other = boundaries;
    other.insert(other.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                 boundaries[i] + (boundaries[i + 1] - boundaries[i]) / 2);
    all.push_back(std::move(other));
  }
  return all;
}

double rows_per_second(const Costs& costs, std::uint32_t node, LayerRange layers) {
  return costs.problem().batch_rows / costs.batch_seconds(node, layers);
}

// The sum over the replicas of the range with the least room.
std::uint64_t kv_tokens_of(const Problem& problem, const std::vector<Range>& ranges) {
  constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t fewest = kAny;
  for (const Range& range : ranges) {
    std::uint64_t tokens = 0;
    for (const std::uint32_t node : range.nodes) {
      const std::uint64_t room = predict(problem, {{node, range.layers}}).kv_tokens;
      tokens = room > kAny - tokens ? kAny : tokens + room;
    }
    fewest = std::min(fewest, tokens);
  }
  return fewest;
}

// The streams that keep the slowest range busy: the rows in flight on every stage and every hop.
std::uint32_t streams_of(const Costs& costs, const std::vector<Range>& ranges, double rate) {
  double under_way = 0.0;
  for (const Range& range : ranges) {
    double hop = 0.0;
    for (const std::uint32_t node : range.nodes) {
      hop += costs.delay(node) + (range.layers.end < costs.layers() ? costs.speed(node).bytes : 0);
    }
    const auto replicas = static_cast<double>(range.nodes.size());
    under_way += costs.problem().batch_rows * replicas * rate / range.all_tokens_per_second;
    if (ranges.size() > 1) under_way += rate * hop / replicas;
  }
  return static_cast<std::uint32_t>(std::ceil(std::min(under_way, 1e9)));
}

// Sets the route and the figures of a plan whose ranges have replicas. False: no route goes all
// round.
bool predict_ranges(const Costs& costs, RangePlan& plan) {
  const Problem& problem = costs.problem();
  auto route = quickest_route(problem, offers_of(plan.ranges));
  if (!route) return false;
  plan.route = std::move(*route);
  plan.prediction = predict(problem, plan.route.stages);
  double rate = std::numeric_limits<double>::infinity();
  for (const Range& range : plan.ranges) rate = std::min(rate, range.all_tokens_per_second);
  plan.prediction.all_tokens_per_second = rate;
  plan.prediction.streams = streams_of(costs, plan.ranges, rate);
  plan.prediction.kv_tokens = kv_tokens_of(problem, plan.ranges);
  return true;
}

double row_and_hop(const Costs& costs, std::uint32_t node, LayerRange layers) {
  const double seconds = costs.row_seconds(node, layers);
  if (layers.size() == costs.layers()) return seconds;
  const bool last = layers.end == costs.layers();
  return seconds + costs.delay(node) +
         (last ? 0.0 : costs.speed(node).bytes / costs.problem().batch_rows);
}

// Seconds of a token through this node in place of the one on the quickest route.
double detour_seconds(const Costs& costs, const Route& route, std::uint32_t node,
                      LayerRange layers) {
  double seconds = route.seconds;
  for (const Stage& stage : route.stages) {
    if (stage.layers != layers) continue;
    seconds += row_and_hop(costs, node, layers) - row_and_hop(costs, stage.node, layers);
  }
  return std::max(seconds, route.seconds);
}

Spare slow_spare(const Costs& costs, const Route& route, std::uint32_t node, LayerRange layers) {
  const double seconds = detour_seconds(costs, route, node, layers);
  return {node, SpareReason::kDetour, 0, 1.0 / seconds, 1.0 / route.seconds};
}

bool on_route(const Route& route, std::uint32_t node) {
  return std::ranges::count(route.stages, node, &Stage::node) > 0;
}

void leave_out_slow_replicas(const Costs& costs, RangePlan& plan) {
  const bool latency = costs.problem().objective != Objective::kThroughput;
  const double max_seconds =
      (latency ? kDetourOfLatency : kDetourOfThroughput) * plan.route.seconds;
  for (Range& range : plan.ranges) {
    std::vector<std::pair<double, std::uint32_t>> slow;
    for (const std::uint32_t node : range.nodes) {
      const double seconds = detour_seconds(costs, plan.route, node, range.layers);
      if (seconds > max_seconds && !on_route(plan.route, node)) slow.emplace_back(seconds, node);
    }
    std::sort(slow.rbegin(), slow.rend());
    for (const auto& [seconds, node] : slow) {
      const double left = range.all_tokens_per_second - rows_per_second(costs, node, range.layers);
      if (!latency && left < plan.prediction.all_tokens_per_second) continue;
      range.all_tokens_per_second = left;
      std::erase(range.nodes, node);
      INVARIANT(!range.nodes.empty(), "the quickest route keeps a replica of every range");
      plan.spares.push_back(slow_spare(costs, plan.route, node, range.layers));
    }
  }
}

Spare without_range(const Costs& costs, const std::vector<Range>& ranges, std::uint32_t node) {
  const Problem& problem = costs.problem();
  if (const auto no_layer = holds_no_layer(problem, node)) return *no_layer;
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
  for (const Range& range : ranges) {
    if (costs.fits(node, range.layers)) return {node, SpareReason::kRangeLinks};
    smallest = std::min(smallest, stage_bytes(problem, range.layers));
  }
  return {node, SpareReason::kRangeMemory, smallest};
}

// One layer split with its replicas; false where a range has none or no route goes all round.
bool fill(const Costs& costs, const std::vector<LayerRange>& ranges,
          const std::vector<std::uint32_t>& range_of, RangePlan& plan) {
  INVARIANT(!ranges.empty() && ranges.front().begin == 0 && ranges.back().end == costs.layers(),
            "ranges have all layers");
  plan.ranges.clear();
  for (const LayerRange layers : ranges) plan.ranges.push_back({layers, {}, 0.0});
  for (std::uint32_t node = 0; node < range_of.size(); ++node) {
    if (range_of[node] == kNoRange) continue;
    INVARIANT(range_of[node] < plan.ranges.size(), "a node's range is one of the split");
    Range& range = plan.ranges[range_of[node]];
    range.nodes.push_back(node);
    range.all_tokens_per_second += rows_per_second(costs, node, range.layers);
  }
  const bool all =
      std::ranges::all_of(plan.ranges, [](const Range& range) { return !range.nodes.empty(); });
  return all && predict_ranges(costs, plan);
}

class Planner {
 public:
  explicit Planner(const Problem& problem) : problem_(problem), costs_(problem) {}

  Result<RangePlan> run() {
    const bool latency = problem_.objective != Objective::kThroughput;
    if (latency) try_pipeline();
    try_split(ranges_between(boundaries_for_classes(costs_, classes_of(costs_))));
    const auto nodes = static_cast<std::uint32_t>(problem_.nodes.size());
    const std::uint32_t max_count = std::min({costs_.layers(), nodes, kMaxEqualRanges});
    for (std::uint32_t count = 1; count <= max_count; ++count)
      try_split(equal_ranges(costs_, count));
    if (problem_.stages > max_count) try_split(equal_ranges(costs_, problem_.stages));
    if (found_.empty() && !latency) try_pipeline();
    if (!latency) refine();
    if (found_.empty()) return no_placement(problem_);
    return chosen();
  }

 private:
  void try_pipeline() {
    const auto stages = place(problem_);
    if (!stages.ok()) return;
    std::vector<LayerRange> ranges;
    std::vector<std::uint32_t> taken(problem_.nodes.size(), kNoRange);
    for (const Stage& stage : *stages) {
      taken[stage.node] = static_cast<std::uint32_t>(ranges.size());
      ranges.push_back(stage.layers);
    }
    try_split(ranges, taken);
  }

  void try_split(const std::vector<LayerRange>& ranges) {
    const bool latency = problem_.objective != Objective::kThroughput;
    try_split(ranges, latency ? quickest_each(costs_, ranges)
                              : std::vector<std::uint32_t>(problem_.nodes.size(), kNoRange));
  }

  void try_split(const std::vector<LayerRange>& ranges, const std::vector<std::uint32_t>& taken) {
    if (ranges.empty() || ranges.size() > problem_.nodes.size()) return;
    if (problem_.stages != 0 && problem_.stages != ranges.size()) return;
    RangePlan plan;
    if (!fill(costs_, ranges, replicate(costs_, ranges, taken), plan)) return;
    leave_out_slow_replicas(costs_, plan);
    if (predict_ranges(costs_, plan)) found_.push_back(std::move(plan));
  }

  // Moves from the best split to a neighbour as long as one is quicker.
  void refine() {
    const RangePlan* best = nullptr;
    for (const RangePlan& plan : found_) {
      if (best == nullptr ||
          rate_of(problem_, plan.prediction) > rate_of(problem_, best->prediction)) {
        best = &plan;
      }
    }
    if (best == nullptr) return;
    std::vector<std::uint32_t> boundaries{0};
    for (const Range& range : best->ranges) boundaries.push_back(range.layers.end);
    double rate = slowest(boundaries);
    bool refined = false;
    for (std::uint32_t round = 0; round < kRefinements; ++round) {
      std::vector<std::uint32_t> better;
      for (std::vector<std::uint32_t>& beside : neighbours_of(boundaries, problem_.stages == 0)) {
        const double there = slowest(beside);
        if (there <= rate * (1.0 + 1e-9)) continue;
        rate = there;
        better = std::move(beside);
      }
      if (better.empty()) break;
      boundaries = std::move(better);
      refined = true;
    }
    if (refined) try_split(ranges_between(boundaries));
  }

  // The rate of the slowest range, in steps a second.
  double slowest(const std::vector<std::uint32_t>& boundaries) const {
    const std::vector<LayerRange> ranges = ranges_between(boundaries);
    const std::vector<std::uint32_t> range_of =
        replicate(costs_, ranges, std::vector<std::uint32_t>(problem_.nodes.size(), kNoRange));
    std::vector<double> rates(ranges.size(), 0.0);
    for (std::uint32_t node = 0; node < range_of.size(); ++node) {
      if (range_of[node] == kNoRange) continue;
      rates[range_of[node]] += 1.0 / costs_.batch_seconds(node, ranges[range_of[node]]);
    }
    return *std::ranges::min_element(rates);
  }

  RangePlan chosen() {
    std::vector<std::pair<double, double>> rates;
    for (const RangePlan& plan : found_) {
      rates.emplace_back(plan.prediction.tokens_per_second, plan.prediction.all_tokens_per_second);
    }
    RangePlan* const chosen = &found_[best_alike(problem_.objective, rates)];
    chosen->bound = bound_rows_per_second(costs_);
    std::vector<bool> named(problem_.nodes.size());
    for (const Range& range : chosen->ranges) {
      for (const std::uint32_t node : range.nodes) named[node] = true;
    }
    for (const Spare& spare : chosen->spares) named[spare.node] = true;
    for (std::uint32_t node = 0; node < problem_.nodes.size(); ++node) {
      if (named[node]) continue;
      chosen->spares.push_back(without_range(costs_, chosen->ranges, node));
    }
    std::ranges::sort(chosen->spares, {}, &Spare::node);
    return std::move(*chosen);
  }

  const Problem& problem_;
  const Costs costs_;
  std::vector<RangePlan> found_;
};

double range_rate_after(const Problem& changed) {
  const auto plan = plan_ranges(changed);
  return plan.ok() ? rate_of(changed, plan->prediction) : 0.0;
}

// The throughput of the same nodes where the plan is for latency.
std::optional<Gain> for_throughput(const Problem& problem, const RangePlan& plan) {
  if (problem.objective == Objective::kThroughput) return std::nullopt;
  Problem changed = problem;
  changed.objective = Objective::kThroughput;
  const auto other = plan_ranges(changed);
  if (!other.ok()) return std::nullopt;
  const double before = plan.prediction.all_tokens_per_second;
  const double after = other->prediction.all_tokens_per_second;
  if (after < kMinGain * before) return std::nullopt;
  return Gain{Gain::Change::kThroughput, {}, before, after, other->prediction.tokens_per_second};
}

}  // namespace

std::size_t best_alike(Objective objective, const std::vector<std::pair<double, double>>& rates) {
  const bool latency = objective != Objective::kThroughput;
  const double alike = latency ? kAlikeLatency : kAlikeThroughput;
  const auto wanted = [&](std::size_t i) { return latency ? rates[i].first : rates[i].second; };
  const auto other = [&](std::size_t i) { return latency ? rates[i].second : rates[i].first; };
  double best = 0.0;
  for (std::size_t i = 0; i < rates.size(); ++i) best = std::max(best, wanted(i));
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (wanted(i) * alike < best) continue;
    if (!chosen || other(i) > other(*chosen)) chosen = i;
  }
  INVARIANT(chosen, "the best of some plans is within its own margin");
  return *chosen;
}

std::vector<Stage> offers_of(const std::vector<Range>& ranges) {
  std::vector<Stage> offers;
  for (const Range& range : ranges) {
    for (const std::uint32_t node : range.nodes) offers.push_back({node, range.layers});
  }
  return offers;
}

Result<RangePlan> plan_ranges(const Problem& problem) {
  TRY_VOID(check(problem));
  return Planner(problem).run();
}

std::vector<Gain> improvements(const Problem& problem, const RangePlan& plan) {
  std::vector<std::vector<std::uint32_t>> alike;
  for (NodeClass& one : classes_of(Costs(problem))) alike.push_back(std::move(one.nodes));
  std::vector<Gain> all = largest_gains(problem, rate_of(problem, plan.prediction), alike,
                                        plan.ranges.size() > 1, range_rate_after);
  if (auto other = for_throughput(problem, plan)) all.push_back(std::move(*other));
  return all;
}

}  // namespace hearth::placement

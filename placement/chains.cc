#include "placement/chains.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "placement/classes.h"
#include "placement/costs.h"
#include "placement/ranges.h"

namespace hearth::placement {
namespace {

constexpr double kAlikeThroughput = 1.02;
constexpr double kAlikeLatency = 1.05;
constexpr std::size_t kTried = 8;
constexpr std::uint32_t kHalvings = 50;  // of an interval of 12 decades: to a part in 10^12

struct Cut {
  std::vector<LayerRange> ranges;
  std::vector<std::uint32_t> range_of;
  double steps_per_second = 0.0;  // of all pipelines, if none were quicker than the slowest
};

// Groups of `pipelines` nodes that are alike, each as slow and as small as its least.
class Groups {
 public:
  Groups(const Costs& costs, const std::vector<std::uint32_t>& by_speed,
         const std::vector<std::uint32_t>& class_of, std::uint32_t pipelines)
      : costs_(costs), pipelines_(pipelines) {
    const std::size_t count = by_speed.size() / pipelines;
    nodes_.assign(by_speed.begin(),
                  by_speed.begin() + static_cast<std::ptrdiff_t>(count * pipelines));
    std::stable_sort(nodes_.begin(), nodes_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return class_of[a] < class_of[b]; });
    for (std::size_t i = 0; i < count; ++i) speeds_.push_back(slowest_of(i * pipelines));
  }

  // Empty: they do not hold the model.
  std::optional<Cut> cut() {
    double least = 1e-9;
    double most = 1e3;
    if (!reaches(most)) return std::nullopt;
    for (std::uint32_t i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(least * most);
      (reaches(middle) ? most : least) = middle;
    }
    reaches(most);
    Cut cut;
    cut.range_of.assign(costs_.problem().nodes.size(), kNoRange);
    cut.steps_per_second = pipelines_ / most;
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (ends_[i] == begin) continue;
      for (std::uint32_t j = 0; j < pipelines_; ++j) {
        cut.range_of[nodes_[i * pipelines_ + j]] = static_cast<std::uint32_t>(cut.ranges.size());
      }
      cut.ranges.push_back({begin, ends_[i]});
      begin = ends_[i];
    }
    return cut;
  }

 private:
  Speed slowest_of(std::size_t first) const {
    Speed slowest = costs_.speed(nodes_[first]);
    for (std::size_t i = first + 1; i < first + pipelines_; ++i) {
      const Speed& speed = costs_.speed(nodes_[i]);
      slowest.step = std::max(slowest.step, speed.step);
      slowest.layer = std::max(slowest.layer, speed.layer);
      slowest.head = std::max(slowest.head, speed.head);
      slowest.bytes = std::max(slowest.bytes, speed.bytes);
      slowest.memory = std::min(slowest.memory, speed.memory);
      slowest.kv_budget = std::min(slowest.kv_budget, speed.kv_budget);
    }
    return slowest;
  }

  // Whether all layers are computed in steps of so many seconds: each group takes as many as it
  // can, for who reaches further never loses by it. Leaves where each ends.
  bool reaches(double seconds) {
    const std::uint32_t layers = costs_.layers();
    std::uint32_t end = 0;
    ends_.clear();
    for (const Speed& speed : speeds_) {
      const std::uint32_t begin = end;
      const auto can = [&](std::uint32_t to) {
        return costs_.fits(speed, {begin, to}) &&
               costs_.batch_seconds(speed, {begin, to}) <= seconds;
      };
      while (end < layers && can(end + 1)) ++end;
      if (begin < layers && end < layers && can(layers)) end = layers;  // nothing to send on
      ends_.push_back(end);
    }
    return end == layers;
  }

  const Costs& costs_;
  const std::uint32_t pipelines_;
  std::vector<std::uint32_t> nodes_;  // group after group
  std::vector<Speed> speeds_;         // of each group
  std::vector<std::uint32_t> ends_;
};

std::vector<Cut> cuts_of_groups(const Costs& costs) {
  const Problem& problem = costs.problem();
  const auto count = static_cast<std::uint32_t>(problem.nodes.size());
  std::vector<std::uint32_t> class_of(count);
  const std::vector<NodeClass> classes = classes_of(costs);
  for (std::uint32_t i = 0; i < classes.size(); ++i) {
    for (const std::uint32_t node : classes[i].nodes) class_of[node] = i;
  }
  std::vector<std::uint32_t> by_speed(count);
  std::iota(by_speed.begin(), by_speed.end(), 0U);
  std::stable_sort(by_speed.begin(), by_speed.end(), [&](std::uint32_t a, std::uint32_t b) {
    return costs.speed(a).layer < costs.speed(b).layer;
  });
  std::vector<Cut> cuts;
  for (std::uint32_t pipelines = 1; pipelines <= count; ++pipelines) {
    auto cut = Groups(costs, by_speed, class_of, pipelines).cut();
    if (!cut || (problem.stages != 0 && problem.stages != cut->ranges.size())) continue;
    cuts.push_back(std::move(*cut));
  }
  std::stable_sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) {
    return a.steps_per_second > b.steps_per_second;
  });
  if (cuts.size() > kTried) cuts.resize(kTried);
  return cuts;
}

Cut cut_of(const RangePlan& plan, std::size_t nodes) {
  Cut cut;
  cut.range_of.assign(nodes, kNoRange);
  for (const Range& range : plan.ranges) {
    for (const std::uint32_t node : range.nodes) {
      cut.range_of[node] = static_cast<std::uint32_t>(cut.ranges.size());
    }
    cut.ranges.push_back(range.layers);
  }
  return cut;
}

Chains chains_of(const Costs& costs, Cut cut) {
  const Problem& problem = costs.problem();
  Chains chains;
  chains.ranges = std::move(cut.ranges);
  chains.range_of = replicate(costs, chains.ranges, std::move(cut.range_of));
  std::vector<Stage> offers;
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const std::uint32_t range = chains.range_of[node];
    if (range != kNoRange) offers.push_back({node, chains.ranges[range]});
  }
  while (auto way = quickest_route(problem, offers, {}, 0)) {
    std::erase_if(offers, [&](const Stage& offer) {
      return std::find(way->stages.begin(), way->stages.end(), offer) != way->stages.end();
    });
    chains.all_tokens_per_second +=
        problem.batch_rows / pace_seconds(problem, way->stages, problem.batch_rows);
    chains.pipelines.push_back(std::move(*way));
  }
  return chains;
}

// What the objective makes great, and the other figure.
std::pair<double, double> rates_of(const Problem& problem, const Chains& chains) {
  const double one = 1.0 / chains.pipelines.front().seconds;
  const double all = chains.all_tokens_per_second;
  return problem.objective == Objective::kLatency ? std::pair(one, all) : std::pair(all, one);
}

}  // namespace

Result<Chains> plan_chains(const Problem& problem) {
  TRY(const RangePlan ranges, plan_ranges(problem));
  const Costs costs(problem);
  std::vector<Cut> cuts = cuts_of_groups(costs);
  cuts.push_back(cut_of(ranges, problem.nodes.size()));
  std::vector<Chains> found;
  for (Cut& cut : cuts) {
    Chains chains = chains_of(costs, std::move(cut));
    if (!chains.pipelines.empty()) found.push_back(std::move(chains));
  }
  double best = 0.0;
  for (const Chains& chains : found) best = std::max(best, rates_of(problem, chains).first);
  const bool latency = problem.objective == Objective::kLatency;
  const double alike = latency ? kAlikeLatency : kAlikeThroughput;
  Chains* chosen = nullptr;
  for (Chains& chains : found) {
    const auto [rate, other] = rates_of(problem, chains);
    if (rate * alike < best) continue;
    if (chosen == nullptr || other > rates_of(problem, *chosen).second) chosen = &chains;
  }
  INVARIANT(chosen != nullptr, "the way of the ranges is a pipeline of their cut");
  chosen->bound = ranges.bound;
  return std::move(*chosen);
}

}  // namespace hearth::placement

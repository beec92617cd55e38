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

constexpr std::size_t kTried = 8;
constexpr std::uint32_t kHalvings = 50;  // of an interval of 12 decades: to a part in 10^12

struct LayerSplit {
  std::vector<LayerRange> ranges;
  std::vector<std::uint32_t> range_of;
  double steps_per_second = 0.0;  // of all pipelines, each at the pace of the slowest
};

// Groups of `pipelines` similar nodes. A group counts as slow and as small as its weakest node.
class Groups {
 public:
  Groups(const Costs& costs, const std::vector<std::uint32_t>& by_speed,
         const std::vector<std::uint32_t>& class_of, std::uint32_t pipelines)
      : costs_(costs), pipelines_(pipelines) {
    INVARIANT(pipelines >= 1 && pipelines <= by_speed.size(), "a group has nodes");
    const std::size_t count = by_speed.size() / pipelines;
    nodes_.assign(by_speed.begin(),
                  by_speed.begin() + static_cast<std::ptrdiff_t>(count * pipelines));
    std::ranges::stable_sort(nodes_, {}, [&](std::uint32_t node) { return class_of[node]; });
    for (std::size_t i = 0; i < count; ++i) speeds_.push_back(slowest_of(i * pipelines));
  }

  // Empty: they do not hold the model.
  std::optional<LayerSplit> split() {
    double low = 1e-9;
    double high = 1e3;
    if (!reaches(high)) return std::nullopt;
    for (std::uint32_t i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      (reaches(middle) ? high : low) = middle;
    }
    const bool reached = reaches(high);
    INVARIANT(reached, "the upper end of the interval is always kept");
    LayerSplit split;
    split.range_of.assign(costs_.problem().nodes.size(), kNoRange);
    split.steps_per_second = pipelines_ / high;
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (ends_[i] == begin) continue;
      for (std::uint32_t j = 0; j < pipelines_; ++j) {
        split.range_of[nodes_[i * pipelines_ + j]] =
            static_cast<std::uint32_t>(split.ranges.size());
      }
      INVARIANT(ends_[i] > begin, "ranges are neighbours");
      split.ranges.push_back({begin, ends_[i]});
      begin = ends_[i];
    }
    return split;
  }

 private:
  Speed slowest_of(std::size_t first) const {
    Speed slowest = costs_.speed(nodes_[first]);
    for (std::size_t i = first + 1; i < first + pipelines_; ++i) {
      const Speed& speed = costs_.speed(nodes_[i]);
      for (const auto seconds : kSpeedSeconds) {
        slowest.*seconds = std::max(slowest.*seconds, speed.*seconds);
      }
      slowest.memory = std::min(slowest.memory, speed.memory);
      slowest.kv_budget = std::min(slowest.kv_budget, speed.kv_budget);
    }
    return slowest;
  }

  // Whether all layers are computed in steps of so many seconds. Each group takes as many layers as
  // it can, since a longer reach never costs anything. Sets ends_.
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
      if (begin < layers && end < layers && can(layers))
        end = layers;  // the last stage sends no activations
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

std::vector<LayerSplit> splits_of_groups(const Costs& costs) {
  const Problem& problem = costs.problem();
  const auto count = static_cast<std::uint32_t>(problem.nodes.size());
  std::vector<std::uint32_t> class_of(count);
  const std::vector<NodeClass> classes = classes_of(costs);
  for (std::uint32_t i = 0; i < classes.size(); ++i) {
    for (const std::uint32_t node : classes[i].nodes) class_of[node] = i;
  }
  std::vector<std::uint32_t> by_speed(count);
  std::iota(by_speed.begin(), by_speed.end(), 0U);
  std::ranges::stable_sort(by_speed, {},
                           [&](std::uint32_t node) { return costs.speed(node).layer; });
  std::vector<LayerSplit> splits;
  for (std::uint32_t pipelines = 1; pipelines <= count; ++pipelines) {
    auto split = Groups(costs, by_speed, class_of, pipelines).split();
    if (!split || (problem.stages != 0 && problem.stages != split->ranges.size())) continue;
    splits.push_back(std::move(*split));
  }
  std::ranges::stable_sort(splits, std::ranges::greater(), &LayerSplit::steps_per_second);
  if (splits.size() > kTried) splits.resize(kTried);
  return splits;
}

LayerSplit split_of(const RangePlan& plan, std::size_t nodes) {
  LayerSplit split;
  split.range_of.assign(nodes, kNoRange);
  for (const Range& range : plan.ranges) {
    for (const std::uint32_t node : range.nodes) {
      split.range_of[node] = static_cast<std::uint32_t>(split.ranges.size());
    }
    split.ranges.push_back(range.layers);
  }
  return split;
}

Chains chains_of(const Costs& costs, LayerSplit split) {
  const Problem& problem = costs.problem();
  Chains chains;
  chains.ranges = std::move(split.ranges);
  chains.range_of = replicate(costs, chains.ranges, std::move(split.range_of));
  std::vector<Stage> offers;
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const std::uint32_t range = chains.range_of[node];
    if (range != kNoRange) offers.push_back({node, chains.ranges[range]});
  }
  while (auto route = quickest_route(problem, offers)) {
    std::erase_if(offers, [&](const Stage& offer) {
      return std::ranges::find(route->stages, offer) != route->stages.end();
    });
    chains.all_tokens_per_second +=
        problem.batch_rows / pace_seconds(problem, route->stages, problem.batch_rows);
    INVARIANT(route->stages.size() == chains.ranges.size(), "a pipeline has a stage a range");
    chains.pipelines.push_back(std::move(*route));
  }
  return chains;
}

}  // namespace

Result<Chains> plan_chains(const Problem& problem) {
  TRY(const RangePlan ranges, plan_ranges(problem));
  const Costs costs(problem);
  std::vector<LayerSplit> splits = splits_of_groups(costs);
  splits.push_back(split_of(ranges, problem.nodes.size()));
  std::vector<Chains> found;
  for (LayerSplit& split : splits) {
    Chains chains = chains_of(costs, std::move(split));
    if (!chains.pipelines.empty()) found.push_back(std::move(chains));
  }
  INVARIANT(!found.empty(), "the route of the ranges is a pipeline of their split");
  std::vector<std::pair<double, double>> rates;
  for (const Chains& chains : found) {
    rates.emplace_back(1.0 / chains.pipelines.front().seconds, chains.all_tokens_per_second);
  }
  Chains& chosen = found[best_alike(problem.objective, rates)];
  chosen.bound = ranges.bound;
  return std::move(chosen);
}

}  // namespace hearth::placement

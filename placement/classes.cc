#include "placement/classes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/check.h"

namespace hearth::placement {
namespace {

static_assert(kMaxClasses < 16, "the splitter visits every set of classes");

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;  // rounding error allowed in a bound that is met exactly
constexpr std::uint32_t kUnset = std::numeric_limits<std::uint32_t>::max();

// Runs of a sorted list whose values are within `tolerance` of the run's first.
template <typename Value>
std::vector<std::vector<std::uint32_t>> runs(std::vector<std::uint32_t> nodes, double tolerance,
                                             Value value) {
  std::ranges::stable_sort(nodes, {}, value);
  std::vector<std::vector<std::uint32_t>> runs;
  double first = 0.0;
  for (const std::uint32_t node : nodes) {
    if (runs.empty() || value(node) > first * tolerance) {
      runs.emplace_back();
      first = value(node);
    }
    runs.back().push_back(node);
  }
  return runs;
}

NodeClass class_of(const Costs& costs, std::vector<std::uint32_t> nodes) {
  INVARIANT(!nodes.empty(), "a class has a node");
  std::ranges::sort(nodes);
  NodeClass one;
  one.speed = costs.speed(nodes.front());
  for (const auto seconds : kSpeedSeconds) {
    double sum = 0.0;
    for (const std::uint32_t node : nodes) sum += costs.speed(node).*seconds;
    one.speed.*seconds = sum / static_cast<double>(nodes.size());
  }
  for (const std::uint32_t node : nodes) {
    one.speed.memory = std::min(one.speed.memory, costs.speed(node).memory);
    one.speed.kv_budget = std::min(one.speed.kv_budget, costs.speed(node).kv_budget);
  }
  one.nodes = std::move(nodes);
  return one;
}

// The layer split that keeps a pace, in steps a second.
class ClassSplitter {
 public:
  ClassSplitter(const Costs& costs, const std::vector<NodeClass>& classes)
      : classes_(classes), layers_(costs.layers()) {
    INVARIANT(classes.size() <= kMaxClasses, "sets of classes are few");
    for (const NodeClass& one : classes) {
      std::vector<double>& seconds =
          seconds_.emplace_back(std::size_t{layers_ + 1} * layers_, kInfinite);
      for (std::uint32_t begin = 0; begin < layers_; ++begin) {
        for (std::uint32_t end = begin + 1; end <= layers_; ++end) {
          if (!costs.fits(one.speed, {begin, end})) break;
          seconds[at(begin, end)] = costs.batch_seconds(one.speed, {begin, end});
        }
      }
    }
  }

  bool keeps(double pace) {
    reached_.clear();
    const std::size_t all = (std::size_t{1} << classes_.size()) - 1;
    reach_.assign(all + 1, 0);
    last_.assign(all + 1, kUnset);
    for (std::size_t set = 1; set <= all; ++set) {
      for (std::uint32_t one = 0; one < classes_.size(); ++one) {
        const std::size_t bit = std::size_t{1} << one;
        if ((set & bit) == 0) continue;
        const std::uint32_t end = reach(one, reach_[set & ~bit], pace);
        if (last_[set] != kUnset && end <= reach_[set]) continue;
        reach_[set] = end;
        last_[set] = one;
      }
    }
    return reach_[all] == layers_;
  }

  // After keeps() of the same pace.
  std::vector<std::uint32_t> boundaries(double pace) {
    std::vector<std::uint32_t> boundaries{layers_};
    for (std::size_t set = reach_.size() - 1; set != 0; set &= ~(std::size_t{1} << last_[set])) {
      const std::size_t before = set & ~(std::size_t{1} << last_[set]);
      if (reach_[before] == reach_[set]) continue;
      walk(last_[set], reach_[before], pace);
      INVARIANT(nodes_[reach_[set]] <= static_cast<double>(classes_[last_[set]].nodes.size()),
                "a class has the nodes for its ranges");
      for (std::uint32_t end = reach_[set]; end != reach_[before]; end = from_[end]) {
        boundaries.push_back(from_[end]);
      }
    }
    std::ranges::reverse(boundaries);
    return boundaries;
  }

 private:
  std::size_t at(std::uint32_t begin, std::uint32_t end) const {
    return std::size_t{begin} * (layers_ + 1) + end;
  }

  // The fewest nodes of a class from a boundary to each later one, and among equal numbers the
  // fewest ranges.
  void walk(std::uint32_t one, std::uint32_t begin, double pace) {
    const std::vector<double>& seconds = seconds_[one];
    const auto max_nodes = static_cast<double>(classes_[one].nodes.size());
    nodes_.assign(layers_ + 1, kInfinite);
    ranges_.assign(layers_ + 1, 0);
    from_.assign(layers_ + 1, kUnset);
    nodes_[begin] = 0.0;
    for (std::uint32_t middle = begin; middle < layers_; ++middle) {
      if (nodes_[middle] > max_nodes) continue;
      for (std::uint32_t end = middle + 1; end <= layers_; ++end) {
        if (seconds[at(middle, end)] == kInfinite) break;
        const double wanted = std::ceil(pace * seconds[at(middle, end)] * (1.0 - kRounding));
        const double nodes = nodes_[middle] + std::max(1.0, wanted);
        const std::uint32_t ranges = ranges_[middle] + 1;
        if (nodes > max_nodes || nodes > nodes_[end]) continue;
        if (nodes == nodes_[end] && ranges >= ranges_[end]) continue;
        nodes_[end] = nodes;
        ranges_[end] = ranges;
        from_[end] = middle;
      }
    }
  }

  std::uint32_t reach(std::uint32_t one, std::uint32_t begin, double pace) {
    if (begin == layers_) return begin;
    const auto known = reached_.find({one, begin});
    if (known != reached_.end()) return known->second;
    walk(one, begin, pace);
    std::uint32_t end = layers_;
    while (nodes_[end] == kInfinite) --end;
    INVARIANT(end >= begin, "a walk reaches its own begin");
    reached_[{one, begin}] = end;
    return end;
  }

  const std::vector<NodeClass>& classes_;
  const std::uint32_t layers_;
  std::vector<std::vector<double>> seconds_;  // by class: of a batch on a range
  std::vector<std::uint32_t> reach_, last_;   // by set of classes
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> reached_;
  std::vector<double> nodes_;  // of walk(), by boundary
  std::vector<std::uint32_t> ranges_, from_;
};

// The heaviest range that a node holds: of all, and of those with the head.
struct Heaviest {
  double weight = 0.0;
  double with_head = 0.0;
  double least_with_head = 0.0;
};

Heaviest heaviest(const Costs& costs, std::uint32_t node) {
  const std::uint32_t layers = costs.layers();
  Heaviest heaviest;
  std::uint32_t end = 0;
  for (std::uint32_t begin = 0; begin < layers; ++begin) {
    end = std::max(end, begin);
    while (end < layers && costs.fits(node, {begin, end + 1})) ++end;
    if (end == begin) continue;
    heaviest.weight = std::max(heaviest.weight, costs.weight({begin, end}));
    if (end < layers) continue;
    heaviest.with_head = costs.weight({begin, layers});
    heaviest.least_with_head = costs.weight({layers - 1, layers});
    break;
  }
  return heaviest;
}

// A row needs every layer and the head, which counts as `head_layers` layers. For any such value,
// no node does more work a second than at its best range.
double bound_steps(const Costs& costs, double head_layers) {
  double work = 0.0;
  for (std::uint32_t node = 0; node < costs.problem().nodes.size(); ++node) {
    const Speed& speed = costs.speed(node);
    const Heaviest most = heaviest(costs, node);
    if (most.weight == 0.0) continue;
    double rate = most.weight / (speed.step + most.weight * speed.layer);
    if (most.with_head > 0.0) {
      for (const double weight : {most.with_head, most.least_with_head}) {
        const double seconds = speed.step + weight * speed.layer + speed.head;
        rate = std::max(rate, (weight + head_layers) / seconds);
      }
    }
    work += rate;
  }
  INVARIANT(work >= 0.0, "a rate is not negative");
  return work / (costs.weight({0, costs.layers()}) + head_layers);
}

double bound_steps(const Costs& costs) {
  double least = bound_steps(costs, 0.0);
  double heads = 0.0;
  double layers = 0.0;
  for (std::uint32_t node = 0; node < costs.problem().nodes.size(); ++node) {
    heads += costs.speed(node).head / costs.speed(node).layer;
    layers += 1.0;
  }
  return std::min(least, bound_steps(costs, heads / layers));
}

}  // namespace

std::vector<NodeClass> classes_of(const Costs& costs) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < costs.problem().nodes.size(); ++node) {
    if (heaviest(costs, node).weight > 0.0) nodes.push_back(node);
  }
  std::vector<NodeClass> classes;
  for (const double tolerance : {1.2, 1.5, 2.0, 4.0, 16.0, kInfinite}) {
    classes.clear();
    const auto speed = [&](std::uint32_t node) { return costs.speed(node).layer; };
    const auto memory = [&](std::uint32_t node) {
      return static_cast<double>(costs.speed(node).memory);
    };
    for (auto& alike : runs(nodes, tolerance, speed)) {
      for (auto& both : runs(std::move(alike), tolerance, memory)) {
        classes.push_back(class_of(costs, std::move(both)));
      }
    }
    if (classes.size() <= kMaxClasses) break;
  }
  std::ranges::stable_sort(classes, std::ranges::greater(),
                           [](const NodeClass& one) { return one.speed.memory; });
  return classes;
}

std::vector<std::uint32_t> boundaries_for_classes(const Costs& costs,
                                                  const std::vector<NodeClass>& classes) {
  if (classes.empty()) return {};
  ClassSplitter splitter(costs, classes);
  double high = bound_steps(costs);
  double low = 1e-9 * high;
  if (!splitter.keeps(low)) return {};
  for (std::uint32_t halvings = 0; halvings < 36; ++halvings) {
    const double pace = low + (high - low) / 2.0;
    (splitter.keeps(pace) ? low : high) = pace;
  }
  const bool kept = splitter.keeps(low);
  INVARIANT(kept, "the lower end of the interval is always kept");
  return splitter.boundaries(low);
}

double bound_rows_per_second(const Costs& costs) {
  return bound_steps(costs) * costs.problem().batch_rows;
}

}  // namespace hearth::placement

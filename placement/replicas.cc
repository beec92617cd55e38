#include "placement/replicas.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace hearth::placement {
namespace {

constexpr std::size_t kSwapNodes = 64;  // n^2 steps each

class Giving {
 public:
  Giving(const Costs& costs, const std::vector<LayerRange>& ranges,
         std::vector<std::uint32_t> taken)
      : costs_(costs),
        ranges_(ranges),
        nodes_(costs.problem().nodes.size()),
        range_of_(std::move(taken)),
        held_(nodes_),
        fixed_(nodes_),
        rates_(ranges.size(), 0.0),
        rate_(nodes_ * ranges.size(), 0.0) {
    INVARIANT(range_of_.size() == nodes_, "every node has a range or kNoRange");
    INVARIANT(!ranges.empty() && ranges.front().begin == 0 && ranges.back().end == costs.layers(),
              "ranges have all layers");
    for (std::uint32_t node = 0; node < nodes_; ++node) {
      fixed_[node] = range_of_[node] != kNoRange;
      for (std::uint32_t range = 0; range < ranges.size(); ++range) {
        if (!costs.fits(node, ranges[range])) continue;
        rate(node, range) = 1.0 / costs.batch_seconds(node, ranges[range]);
        ++held_[node];
      }
      if (fixed_[node]) rates_[range_of_[node]] += rate(node, range_of_[node]);
    }
  }

  std::vector<std::uint32_t> run() {
    give();
    for (std::size_t moves = 0; moves < nodes_ && (move() || swap()); ++moves) continue;
    while (drop_unlinked()) continue;
    return std::move(range_of_);
  }

 private:
  double& rate(std::uint32_t node, std::uint32_t range) {
    return rate_[std::size_t{node} * ranges_.size() + range];
  }

  void give() {
    std::vector<std::uint32_t> order;
    for (std::uint32_t node = 0; node < nodes_; ++node) {
      if (!fixed_[node] && held_[node] > 0) order.push_back(node);
    }
    std::ranges::stable_sort(order, {}, [&](std::uint32_t node) {
      return std::pair(held_[node], costs_.speed(node).layer);
    });
    for (const std::uint32_t node : order) {
      std::uint32_t neediest = kNoRange;
      for (std::uint32_t range = 0; range < ranges_.size(); ++range) {
        if (rate(node, range) == 0.0) continue;
        if (neediest == kNoRange || rates_[range] < rates_[neediest]) neediest = range;
      }
      INVARIANT(range_of_[node] == kNoRange, "a node has one range");
      range_of_[node] = neediest;
      rates_[neediest] += rate(node, neediest);
    }
  }

  // Moves the node that leaves the slowest range and its own range as quick as possible.
  bool move() {
    const std::uint32_t slowest = slowest_range();
    double best = rates_[slowest] * (1.0 + 1e-9);
    std::uint32_t mover = kNoRange;
    for (std::uint32_t node = 0; node < nodes_; ++node) {
      const std::uint32_t from = range_of_[node];
      if (fixed_[node] || from == kNoRange || from == slowest) continue;
      if (rate(node, slowest) == 0.0) continue;
      const double after =
          std::min(rates_[from] - rate(node, from), rates_[slowest] + rate(node, slowest));
      if (after <= best) continue;
      best = after;
      mover = node;
    }
    if (mover == kNoRange) return false;
    put(mover, slowest);
    return true;
  }

  // Exchanges two nodes that are each of more use in the range of the other.
  bool swap() {
    if (nodes_ > kSwapNodes) return false;
    const std::uint32_t slowest = slowest_range();
    double best = rates_[slowest] * (1.0 + 1e-9);
    std::pair<std::uint32_t, std::uint32_t> swapped{kNoRange, kNoRange};
    for (std::uint32_t out = 0; out < nodes_; ++out) {
      if (fixed_[out] || range_of_[out] != slowest) continue;
      for (std::uint32_t in = 0; in < nodes_; ++in) {
        const std::uint32_t from = range_of_[in];
        if (fixed_[in] || from == kNoRange || from == slowest) continue;
        if (rate(in, slowest) == 0.0 || rate(out, from) == 0.0) continue;
        const double after = std::min(rates_[slowest] - rate(out, slowest) + rate(in, slowest),
                                      rates_[from] - rate(in, from) + rate(out, from));
        if (after <= best) continue;
        best = after;
        swapped = {out, in};
      }
    }
    if (swapped.first == kNoRange) return false;
    const std::uint32_t to = range_of_[swapped.second];
    put(swapped.second, slowest);
    put(swapped.first, to);
    return true;
  }

  std::uint32_t slowest_range() const {
    return static_cast<std::uint32_t>(std::ranges::min_element(rates_) - rates_.begin());
  }

  void put(std::uint32_t node, std::uint32_t range) {
    INVARIANT(!fixed_[node] && range_of_[node] != kNoRange, "only a node with a range moves");
    INVARIANT(rate(node, range) > 0.0, "a node holds the range that it moves to");
    rates_[range_of_[node]] -= rate(node, range_of_[node]);
    rates_[range] += rate(node, range);
    range_of_[node] = range;
  }

  bool drop_unlinked() {
    if (ranges_.size() == 1) return false;
    std::vector<std::vector<std::uint32_t>> replicas(ranges_.size());
    for (std::uint32_t node = 0; node < nodes_; ++node) {
      if (range_of_[node] != kNoRange) replicas[range_of_[node]].push_back(node);
    }
    const Problem& problem = costs_.problem();
    bool dropped = false;
    for (std::size_t range = 0; range < ranges_.size(); ++range) {
      const auto& before = replicas[(range + ranges_.size() - 1) % ranges_.size()];
      const auto& after = replicas[(range + 1) % ranges_.size()];
      for (const std::uint32_t node : replicas[range]) {
        const bool in = std::ranges::any_of(before, [&](std::uint32_t from) {
          return problem.link(from, node).bytes_per_second > 0.0;
        });
        const bool out = std::ranges::any_of(
            after, [&](std::uint32_t to) { return problem.link(node, to).bytes_per_second > 0.0; });
        if (in && out) continue;
        range_of_[node] = kNoRange;
        dropped = true;
      }
    }
    return dropped;
  }

  const Costs& costs_;
  const std::vector<LayerRange>& ranges_;
  const std::size_t nodes_;
  std::vector<std::uint32_t> range_of_;
  std::vector<std::uint32_t> held_;  // number of ranges that a node holds
  std::vector<bool> fixed_;
  std::vector<double> rates_;  // of each range, in steps a second
  std::vector<double> rate_;   // [node * ranges + range]; 0: it does not hold it
};

}  // namespace

std::vector<std::uint32_t> replicate(const Costs& costs, const std::vector<LayerRange>& ranges,
                                     std::vector<std::uint32_t> taken) {
  return Giving(costs, ranges, std::move(taken)).run();
}

std::vector<std::uint32_t> quickest_each(const Costs& costs,
                                         const std::vector<LayerRange>& ranges) {
  const auto nodes = static_cast<std::uint32_t>(costs.problem().nodes.size());
  std::vector<std::vector<std::uint32_t>> holders(ranges.size());
  for (std::uint32_t range = 0; range < ranges.size(); ++range) {
    for (std::uint32_t node = 0; node < nodes; ++node) {
      if (costs.fits(node, ranges[range])) holders[range].push_back(node);
    }
  }
  std::vector<std::uint32_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t range) { return holders[range].size(); });
  std::vector<std::uint32_t> taken(nodes, kNoRange);
  for (const std::uint32_t range : order) {
    std::uint32_t quickest = kNoRange;
    for (const std::uint32_t node : holders[range]) {
      if (taken[node] != kNoRange) continue;
      if (quickest == kNoRange ||
          costs.row_seconds(node, ranges[range]) < costs.row_seconds(quickest, ranges[range])) {
        quickest = node;
      }
    }
    if (quickest != kNoRange) taken[quickest] = range;
  }
  return taken;
}

}  // namespace hearth::placement

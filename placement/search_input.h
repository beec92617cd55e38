// A placement problem as the exact search reads it: nodes in the order of their speed, and what
// each of them holds and sends within a pace.
//
// Nodes are numbered by the speed of their layers, the quickest first, so that the members of a set
// are visited in the order in which layers are given to them. Weights are in layers of mean size;
// where all layers have one size they are whole numbers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "placement/costs.h"
#include "placement/problem.h"

namespace hearth::placement {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1e-9;  // rounding error allowed in a bound that is met exactly
constexpr std::uint32_t kMaxNodes = limits::kExactNodes;
constexpr std::uint32_t kNone = kMaxNodes;  // no node

using Set = std::uint32_t;  // of nodes
static_assert(kMaxNodes < std::numeric_limits<Set>::digits, "a set has a bit for each node");
static_assert(limits::kModelLayers < std::numeric_limits<std::uint16_t>::max(),
              "the search keeps in 16 bits how far a set reaches");

inline Set bit(std::uint32_t node) { return Set{1} << node; }
inline std::uint32_t lowest(Set set) { return static_cast<std::uint32_t>(std::countr_zero(set)); }
inline std::uint32_t size_of(Set set) { return static_cast<std::uint32_t>(std::popcount(set)); }

// The place of a node in its pipeline decides what it holds beside its layers. kLater: an inner
// stage or the last one.
enum Role : std::uint32_t { kInner = 0, kFirst = 1, kLast = 2, kAlone = 3, kLater = 4 };
constexpr std::size_t kRoles = 5;
static_assert((kFirst | kLast) == kAlone, "a stage alone is the first and the last one");

// `last` is kNone while the last node is unknown.
inline Role role_of(std::uint32_t node, std::uint32_t first, std::uint32_t last) {
  if (last == kNone) return node == first ? kFirst : kLater;
  return static_cast<Role>((node == first ? kFirst : kInner) | (node == last ? kLast : kInner));
}

// Whether all layers have one size, in memory and in time.
inline bool has_equal_layers(const Problem& problem) {
  const auto equal = [](const auto& values) {
    return std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
  };
  return equal(problem.model.layer_bytes) && equal(problem.model.read_bytes()) &&
         equal(problem.model.layer_kv);
}

class SearchInput {
 public:
  explicit SearchInput(const Problem& problem)
      : problem_(problem),
        costs_(problem),
        count_(static_cast<std::uint32_t>(problem.nodes.size())),
        layers_(problem.layers()),
        equal_(has_equal_layers(problem)) {
    INVARIANT(count_ >= 1 && count_ <= kMaxNodes, "the exact search is for a few nodes");
    INVARIANT(layers_ >= 1 && layers_ <= limits::kModelLayers, "the problem was checked");
    INVARIANT(problem.links.size() == std::size_t{count_} * count_, "every pair has a link");
    for (std::uint32_t i = 0; i <= layers_; ++i) {
      weights_.push_back(equal_ ? i : costs_.weight({0, i}));
      if (i > 0) min_weight_ = std::min(min_weight_, costs_.weight({i - 1, i}));
    }
    INVARIANT(min_weight_ > 0.0, "every layer has bytes");
    read_nodes();
    read_links();
    bound(kNever);
  }

  // From now on every stage and link keeps within `pace` seconds; kNever: as at the start.
  void bound(double pace) {
    INVARIANT(pace >= 0.0, "a pace is a time");
    pace_ = pace;
    const double max_seconds = pace * (1.0 + kSlack);
    sources_.assign(count_, 0);
    source_masks_.assign(count_, {});
    far_.assign(std::size_t{count_} * layers_, 0);
    last_from_.assign(count_, layers_);
    heaviest_.assign(count_, {});
    for (std::uint32_t node = 0; node < count_; ++node) {
      for (std::uint32_t from = 0; from < count_; ++from) {
        const double bytes = bytes_[from * count_ + node];
        if (bytes == kNever || bytes > max_seconds) continue;
        sources_[node] |= bit(from);
        source_masks_[node][from] = 0xffff;
      }
      INVARIANT((sources_[node] & bit(node)) == 0, "a node has no link to itself");
      bound_node(node, max_seconds);
    }
  }

  std::uint32_t count() const { return count_; }
  std::uint32_t layers() const { return layers_; }
  bool equal_layers() const { return equal_; }
  double pace() const { return pace_; }
  std::uint32_t node(std::uint32_t i) const { return nodes_[i]; }  // of the problem
  const Costs& costs() const { return costs_; }

  // Seconds of a layer of mean size, and of the head.
  double layer(std::uint32_t node) const { return layer_[node]; }
  double head(std::uint32_t node) const { return head_[node]; }
  // Seconds of a step, less the pace where there is one.
  double toll(std::uint32_t node) const { return step_[node] - (pace_ < kNever ? pace_ : 0.0); }
  double seconds(std::uint32_t node, LayerRange layers) const {
    return step_[node] + layer_[node] * weight(layers) +
           (layers.end == layers_ ? head_[node] : 0.0);
  }
  double weight(LayerRange layers) const { return weights_[layers.end] - weights_[layers.begin]; }
  double weight_before(std::uint32_t layer) const { return weights_[layer]; }
  double all_weight() const { return weights_[layers_]; }
  double min_weight() const { return min_weight_; }  // of a layer

  // Seconds of delay, and of delay and bytes; kNever: there is no link.
  double delay(std::uint32_t from, std::uint32_t to) const { return delays_[from * count_ + to]; }
  double hop(std::uint32_t from, std::uint32_t to) const { return hops_[from * count_ + to]; }
  // The nodes whose link to this one keeps the pace; and the same with all bits of a number set for
  // each.
  Set sources(std::uint32_t to) const { return sources_[to]; }
  const std::array<std::uint16_t, kMaxNodes>& source_masks(std::uint32_t to) const {
    return source_masks_[to];
  }
  bool linked(std::uint32_t from, std::uint32_t to) const {
    return (sources_[to] & bit(from)) != 0;
  }

  // The end of the longest range from `begin` on without the last layer; `begin`: no such range.
  std::uint32_t far(std::uint32_t node, std::uint32_t begin) const {
    return far_[std::size_t{node} * layers_ + begin];
  }
  // Whether the node holds all layers from `begin` on.
  bool holds_end(std::uint32_t node, std::uint32_t begin) const {
    return begin >= last_from_[node];
  }
  // Weight of the heaviest range that the node holds in this role; 0: it holds none.
  double heaviest(std::uint32_t node, Role role) const { return heaviest_[node][role]; }

  // Seconds of a set's stages with layers divided anywhere: each takes the weight of the smallest
  // layer, and the quickest take the rest. `price`: the cost of a layer on the slowest stage that
  // takes more than the smallest layer.
  struct Filled {
    double seconds = kNever;
    double price = 0.0;
  };
  Filled fill(Set set, std::uint32_t first, std::uint32_t last) const {
    double left = weights_[layers_] - size_of(set) * min_weight_;
    Filled filled{0.0, layer_[lowest(set)]};
    for (; set != 0; set &= set - 1) {
      const std::uint32_t node = lowest(set);
      const double heaviest = heaviest_[node][role_of(node, first, last)];
      if (heaviest == 0.0) return {};
      if (left > 0.0) filled.price = layer_[node];
      const double more = std::max(0.0, std::min(left, heaviest - min_weight_));
      left -= more;
      filled.seconds += step_[node] + (min_weight_ + more) * layer_[node];
    }
    if (left > kSlack * weights_[layers_]) return {};
    return filled;
  }

  // The possible seconds of a pipeline's slowest stage or link, ascending, below `below`. Requires
  // that no pace is set (bound(kNever)). Equal layers take equal time wherever they are.
  std::vector<double> paces(double below) const {
    INVARIANT(pace_ == kNever, "paces are those of all stages that fit");
    std::vector<double> paces;
    const auto add = [&](double pace) {
      if (pace < below) paces.push_back(pace);
    };
    for (const double bytes : bytes_) add(bytes);
    for (std::uint32_t node = 0; node < count_; ++node) {
      for (std::uint32_t begin = 0; begin < layers_; ++begin) {
        if (begin > 0 && holds_end(node, begin)) add(seconds(node, {begin, layers_}));
        if (equal_ && begin > 1) continue;
        for (std::uint32_t end = begin + 1; end <= far(node, begin); ++end) {
          add(seconds(node, {begin, end}));
        }
      }
      if (heaviest_[node][kAlone] > 0.0) add(seconds(node, {0, layers_}));
    }
    std::ranges::sort(paces);
    paces.erase(std::unique(paces.begin(), paces.end()), paces.end());
    return paces;
  }

 private:
  void read_nodes() {
    const bool latency = problem_.objective != Objective::kThroughput;
    const auto layer = [&](std::uint32_t node) {
      const Speed& speed = costs_.speed(node);
      return latency ? speed.one_layer : speed.layer;
    };
    nodes_.resize(count_);
    std::iota(nodes_.begin(), nodes_.end(), 0U);
    std::ranges::stable_sort(nodes_, {}, layer);
    for (const std::uint32_t node : nodes_) {
      const Speed& speed = costs_.speed(node);
      layer_.push_back(layer(node));
      step_.push_back(speed.step);
      head_.push_back(latency ? speed.one_head : speed.head);
    }
  }

  void read_links() {
    const double rows = problem_.objective != Objective::kThroughput ? 1.0 : problem_.batch_rows;
    const double bytes = rows * static_cast<double>(problem_.model.activation_bytes);
    for (std::uint32_t from = 0; from < count_; ++from) {
      for (std::uint32_t to = 0; to < count_; ++to) {
        const Link& link = problem_.link(nodes_[from], nodes_[to]);
        const bool there = from != to && link.bytes_per_second > 0.0;
        delays_.push_back(there ? link.delay_seconds : kNever);
        bytes_.push_back(there ? bytes / link.bytes_per_second : kNever);
        hops_.push_back(delays_.back() + bytes_.back());
      }
    }
  }

  void bound_node(std::uint32_t node, double max_seconds) {
    const auto holds = [&](LayerRange layers) {
      return costs_.fits(nodes_[node], layers) && seconds(node, layers) <= max_seconds;
    };
    std::array<double, kRoles>& heaviest = heaviest_[node];
    std::uint32_t end = 0;
    for (std::uint32_t begin = 0; begin < layers_; ++begin) {
      end = std::max(begin, end);
      while (end + 1 < layers_ && holds({begin, end + 1})) ++end;
      INVARIANT(end < layers_, "a stage with the last layer has the head");
      far_[std::size_t{node} * layers_ + begin] = end;
      double& one = heaviest[begin == 0 ? kFirst : kInner];
      one = std::max(one, weight({begin, end}));
    }
    while (last_from_[node] > 1 && holds({last_from_[node] - 1, layers_})) --last_from_[node];
    heaviest[kLast] = weight({last_from_[node], layers_});
    heaviest[kLater] = std::max(heaviest[kInner], heaviest[kLast]);
    if (holds({0, layers_})) heaviest[kAlone] = weights_[layers_];
  }

  const Problem& problem_;
  const Costs costs_;
  const std::uint32_t count_;
  const std::uint32_t layers_;
  const bool equal_;
  double pace_ = kNever;
  std::vector<std::uint32_t> nodes_;  // by number: of the problem
  std::vector<double> layer_, step_, head_;
  std::vector<double> hops_, bytes_, delays_;  // [from * count_ + to]
  std::vector<double> weights_;                // of all layers before one
  double min_weight_ = kNever;
  std::vector<Set> sources_;
  std::vector<std::array<std::uint16_t, kMaxNodes>> source_masks_;
  std::vector<std::uint32_t> far_, last_from_;
  std::vector<std::array<double, kRoles>> heaviest_;
};

}  // namespace hearth::placement

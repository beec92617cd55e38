// A placement problem as the exact search reads it: nodes in the order of their speed, and what
// each of them holds and sends within a pace.
//
// Nodes are numbered by the speed of their layers, the quickest first, so that the members of a set
// are visited in the order in which layers are given to them. Weights are in layers of mean size;
// where all layers have one size they are whole numbers.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/limits.h"
#include "placement/costs.h"
#include "placement/problem.h"

namespace hearth::placement {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1e-9;  // rounding may take so much from a bound that is just kept
constexpr std::uint32_t kMaxNodes = limits::kExactNodes;
constexpr std::uint32_t kNone = kMaxNodes;  // in place of a node

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

// `last` may be kNone, where the last node is not known.
inline Role role_of(std::uint32_t node, std::uint32_t first, std::uint32_t last) {
  if (last == kNone) return node == first ? kFirst : kLater;
  return static_cast<Role>((node == first ? kFirst : kInner) | (node == last ? kLast : kInner));
}

// Whether all layers have one size.
bool has_equal_layers(const Problem& problem);

class SearchInput {
 public:
  explicit SearchInput(const Problem& problem);

  // From now on every stage and link keeps within `pace` seconds; kNever: as at the start.
  void bound(double pace);

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
  // The nodes with a link to this one that keeps within the pace; the same with all bits of a
  // number set for each.
  Set sources(std::uint32_t to) const { return sources_[to]; }
  const std::array<std::uint16_t, kMaxNodes>& source_masks(std::uint32_t to) const {
    return source_masks_[to];
  }
  bool linked(std::uint32_t from, std::uint32_t to) const {
    return (sources_[to] & bit(from)) != 0;
  }

  // The end of the longest range from `begin` on that has not the last layer; `begin`: there is no
  // such range.
  std::uint32_t far(std::uint32_t node, std::uint32_t begin) const {
    return far_[std::size_t{node} * layers_ + begin];
  }
  // Whether the node holds all layers from `begin` on.
  bool holds_end(std::uint32_t node, std::uint32_t begin) const {
    return begin >= last_from_[node];
  }
  // Weight of the heaviest range that the node holds in this role; 0: it holds none.
  double heaviest(std::uint32_t node, Role role) const { return heaviest_[node][role]; }

  // Seconds of the stages of a set with layers divided anywhere: each takes the weight of the
  // smallest layer, and the rest goes to the quickest. `price`: what a layer costs on the slowest
  // stage that takes more than the smallest one.
  struct Filled {
    double seconds = kNever;
    double price = 0.0;
  };
  Filled fill(Set set, std::uint32_t first, std::uint32_t last) const;

  // The slowest stage or link of any pipeline takes one of these, ascending, below a limit. Without
  // a bound on the pace.
  std::vector<double> paces(double below) const;

 private:
  void read_nodes();
  void read_links();
  void bound_node(std::uint32_t node, double max_seconds);

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

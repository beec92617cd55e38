// Groups: nodes that compute one stage together, each with its part of every matrix, and the search
// for the groups that make a pipeline quicker.
//
// For the search a group is one node with the figures of group_node(): a layer takes as long as its
// slowest rank, and its exchanges beside that. Its links are those of rank 0. The exact search of
// placement/search.h places the model on the groups of a shape (disjoint groups; all other nodes
// compute alone), and each group takes part. Parts follow the speeds. For a group whose memory does
// not hold the model with these parts, the search also tries the parts with which it holds most.
//
// A group has 2 to limits::kRanks nodes of one island, all linked, that compute a layer at least
// kGroupGain times as fast as the quickest of them alone. Nodes with equal figures are
// interchangeable, so one shape stands for all that only exchange them. Shapes are tried in the
// order of a lower bound of their seconds until none can be better. The search is exact while at
// most kShapesMost shapes have the same number of groups, as of 6 nodes or of 16 equal ones, and
// while the searches of all shapes whose bound is below the result take at most kShapeSteps.
// Beyond, those with the least bounds count.
#pragma once

#include <optional>
#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

// A group must compute a layer so much faster than its quickest node alone, and a pipeline with
// groups must be so much faster than one of stages alone.
constexpr double kGroupGain = kAutoMargin;
constexpr std::size_t kShapesMost = 2'048;
// A search on n groups and nodes takes about n^3 2^n steps, which take some 1.5 ns each.
constexpr double kShapeSteps = 1.3e8;

// The figures of a group: 2 ranks at least, with parts that are together kParts.
Node group_node(const Problem& problem, const std::vector<Rank>& group);
// The group of these nodes, in this order, with their parts of a stage of `bytes`; empty: their
// memories do not hold it.
std::vector<Rank> divide_group(const Problem& problem, const std::vector<std::uint32_t>& nodes,
                               std::uint64_t bytes);
// Whether all of them may form a group: one island, and links between all.
bool may_form_group(const Problem& problem, const std::vector<std::uint32_t>& nodes);

// A problem in which each group is one node, and the nodes of `problem` that it has.
class Grouped {
 public:
  // `groups` share no node. Without islands: no node of the result forms further groups.
  Grouped(const Problem& problem, const std::vector<std::vector<Rank>>& groups);

  const Problem& problem() const { return grouped_; }
  // The nodes of problem() that are groups, the first ones.
  std::uint32_t groups() const { return static_cast<std::uint32_t>(groups_.size()); }
  // The node of problem() that this node of the original is, or is a rank of.
  std::uint32_t node_with(std::uint32_t original) const { return place_[original]; }
  // Stages of problem() as stages of the original. The parts of a group are those for its layers.
  std::vector<Stage> expand(const std::vector<Stage>& stages) const;

 private:
  const Problem& original_;
  Problem grouped_;
  std::vector<std::vector<Rank>> groups_;
  std::vector<std::uint32_t> alone_;  // nodes of the original after the groups
  std::vector<std::uint32_t> place_;
};

// The best pipeline with at least one group, if it is kGroupGain times as fast as `alone`: the best
// pipeline without groups, or empty when none holds the model. Under Objective::kAuto, of the
// pipelines within kAutoMargin of the best one: the one with the fewest nodes, then the fewest
// stages. At most limits::kExactNodes nodes.
std::optional<std::vector<Stage>> search_groups(const Problem& problem,
                                                const std::vector<Stage>& alone);

}  // namespace hearth::placement

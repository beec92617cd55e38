// RangePool: for swarms of more nodes than an exact search takes: the common layer split of all
// pipelines (placement/chains.h), and the pipelines that the free nodes can form.
//
// Each free node waits with a range: its loaded one, else its planned one, else the one that the
// free nodes lack most. A pipeline is the quickest route through the waiting nodes; a node that
// must load is taken only when no node has the range loaded. Running pipelines are never changed:
// new nodes, and nodes of a lost pipeline, wait until every range has a node.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/workers/link_book.h"
#include "coordinator/workers/registry.h"
#include "placement/chains.h"

namespace hearth::coordinator {

// A worker of a group, and its part of the stage (placement/parts.h).
struct PlacedRank {
  Node* node = nullptr;
  std::uint32_t part = 0;
};

// Nodes of a pipeline and their layers, by stage.
struct Placed {
  std::vector<Node*> nodes;  // of a group, rank 0
  std::vector<LayerRange> layers;
  // By stage and rank, from rank 0 on. A stage of one worker has an empty one; empty: all do.
  std::vector<std::vector<PlacedRank>> groups = {};

  bool has_group(std::size_t stage) const { return !groups.empty() && !groups[stage].empty(); }
  // Calls of(node, layers) for each worker, by stage and rank.
  template <typename Of>
  void for_each(const Of& of) const {
    for (std::size_t stage = 0; stage < nodes.size(); ++stage) {
      if (!has_group(stage)) of(*nodes[stage], layers[stage]);
      for (std::size_t i = 0; has_group(stage) && i < groups[stage].size(); ++i) {
        of(*groups[stage][i].node, layers[stage]);
      }
    }
  }
};

// The stages of a placement of these nodes.
Placed placed_on(const std::vector<Node*>& nodes, const std::vector<placement::Stage>& stages);
// The problem of placing these nodes, without links.
placement::Problem problem_without_links(const CoordinatorOptions& options,
                                         const std::vector<Node*>& nodes);

// Whether it is late, slow, recently had a lost link, or makes no receipts: such a node is taken
// only when the others do not hold the model.
bool doubtful(const Node& node);
// The measured nodes, with `all` also the doubtful ones.
std::vector<Node*> placeable(const std::vector<Node*>& nodes, bool all);

class RangePool {
 public:
  RangePool(const CoordinatorOptions& options, const LinkBook& links)
      : options_(options), links_(links) {}

  // The placement problem of these nodes; unmeasured links as in LinkBook::between().
  placement::Problem problem_of(const std::vector<Node*>& nodes) const;

  // Uses this plan from now on, made for problem_of() of the nodes with these names.
  void adopt(const placement::Chains& chains, const std::vector<std::string>& names);
  void drop();
  bool has_cut() const { return !ranges_.empty(); }

  // The next pipeline; `beside`: others run, so a pipeline much slower than planned is refused.
  // Nothing: why_spare() has the reason for each node.
  std::optional<Placed> next(const std::vector<Node*>& free, bool beside);
  // A pipeline of any measured nodes, doubtful ones included: each with its loaded or planned
  // range, or else with the one that they lack most. Nothing: they form none.
  std::optional<Placed> with_what_is_there(const std::vector<Node*>& nodes) const;
  std::string why_spare(const std::string& node) const;

 private:
  // The nodes whose ranges are fixed before the others get one.
  enum class Keep { kLoadedAndPlanned, kLoaded, kNobody };

  std::uint32_t loaded_range(const Node& node) const;
  std::uint32_t range_of(const Node& node, Keep keep) const;
  std::optional<Placed> way_through(const std::vector<Node*>& nodes, Keep keep, bool beside) const;
  void say_why(const std::vector<Node*>& free);

  const CoordinatorOptions& options_;
  const LinkBook& links_;
  std::vector<LayerRange> ranges_;                // empty: no layer split
  std::map<std::string, std::uint32_t> planned_;  // of ranges_
  double seconds_most_ = 0.0;                     // limit for a pipeline beside others
  std::map<std::string, std::string> spares_;
};

}  // namespace hearth::coordinator

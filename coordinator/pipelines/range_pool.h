// RangePool: of a swarm of more nodes than an exact search sees, the cut that all its pipelines
// have (placement/chains.h), and the pipelines that can be formed of the nodes that are free.
//
// Who is free waits with a range: what it has loaded, else what was planned for it, else what the
// free ones want most. A pipeline is the quickest way through those that wait; a node that
// would have to load is taken only where no node has loaded. What runs is never touched: who comes,
// and who is left of a lost pipeline, waits until there is one of every range.
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

// Nodes of a pipeline and their layers, by stage.
struct Placed {
  std::vector<Node*> nodes;
  std::vector<LayerRange> layers;
};

// The stages of a placement of these nodes.
Placed placed_on(const std::vector<Node*>& nodes, const std::vector<placement::Stage>& stages);
// The problem of placing these nodes, without links.
placement::Problem problem_without_links(const CoordinatorOptions& options,
                                         const std::vector<Node*>& nodes);

// It is late, or was part of lost links: taken where the others do not hold the model.
bool doubtful(const Node& node);
// Those that have measured themselves, with those in doubt where `all`.
std::vector<Node*> placeable(const std::vector<Node*>& nodes, bool all);

class RangePool {
 public:
  RangePool(const CoordinatorOptions& options, const LinkBook& links)
      : options_(options), links_(links) {}

  // What the plan of these nodes rests on; unmeasured ways as LinkBook::between.
  placement::Problem problem_of(const std::vector<Node*>& nodes) const;

  // From here on, by the plan of problem_of(nodes), whose names these are.
  void adopt(const placement::Chains& chains, const std::vector<std::string>& names);
  void drop();
  bool has_cut() const { return !ranges_.empty(); }

  // The next pipeline; `beside`: others run, so that one much slower than planned is not wanted.
  // Nothing: why_spare() has a word for each.
  std::optional<Placed> next(const std::vector<Node*>& free, bool beside);
  // Of nodes that have loaded their layers, but for those to whom these were promised.
  std::optional<Placed> with_what_is_there(const std::vector<Node*>& nodes) const;
  std::string why_spare(const std::string& node) const;

 private:
  // Whose range is fixed before the others are given one.
  enum class Keep { kLoadedAndPlanned, kLoaded, kNobody };

  std::uint32_t loaded_range(const Node& node) const;
  std::uint32_t range_of(const Node& node, Keep keep) const;
  std::optional<Placed> way_through(const std::vector<Node*>& nodes, Keep keep, bool beside) const;
  void say_why(const std::vector<Node*>& free);

  const CoordinatorOptions& options_;
  const LinkBook& links_;
  std::vector<LayerRange> ranges_;                // empty: there is no cut
  std::map<std::string, std::uint32_t> planned_;  // of ranges_
  double seconds_most_ = 0.0;                     // that a pipeline beside others may cost
  std::map<std::string, std::string> spares_;
};

}  // namespace hearth::coordinator

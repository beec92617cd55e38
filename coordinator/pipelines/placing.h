// Placing: chooses the free nodes of a pipeline and their layers by measurements
// (placement/plan.h). A node without measurements is not placed.
//
// Before anything is loaded, it waits until no node has joined for some time and every link is
// measured. Under Objective::kAuto it waits only for the nodes, and an unmeasured link counts as an
// ordinary one. Similar figures then count as equal (placement/alike.h), and a running plan stays
// unless another gains more than placement::kAutoMargin. Later, a node with a loaded stage, or with
// its layers on the disk, keeps it if that costs little. A lost stage goes to the node that makes
// the pipeline quickest, and no other node loads anything. Up to eight nodes are searched at once.
// With more nodes the search takes long: it runs on another thread, and only when no pipeline can
// keep its loaded stages, whatever that costs.
//
// With more than limits::kExactNodes free nodes, one layer split is planned for all pipelines. It
// is kept while one of them runs or can form (coordinator/pipelines/range_pool.h).
//
// With CoordinatorOptions::ranks 0, stages may be groups (placement/groups.h) of workers that can
// dial each other, of one owner and one build. Of the workers on the processors of one machine only
// the first may be in a group, because each was measured alone. Under Objective::kAuto it then also
// waits for the links: a group is chosen for its measured links, never for ordinary ones. A group
// that has loaded its shares keeps its stage as a node does. More than limits::kExactNodes nodes
// form no groups.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/pipelines/range_pool.h"
#include "coordinator/workers/link_book.h"
#include "coordinator/workers/registry.h"
#include "placement/problem.h"

namespace hearth::coordinator {

// Pipelines that would be better than the running ones.
struct Better {
  std::vector<Placed> pipelines;
  std::string gain;  // "one stream 120 tokens/s instead of 95, all streams 480 instead of 300"
};

class Placing {
 public:
  Placing(const CoordinatorOptions& options, const Clock& clock, const LinkBook& links);

  // A pipeline of free nodes; of equal nodes it takes the first ones (under Objective::kAuto, by
  // name). Doubtful nodes (range_pool.h) are taken only when the others do not hold the model.
  // `beside`: other pipelines run. Nothing: waiting() has the reason.
  std::optional<Placed> choose(std::vector<Node*> free, bool beside = false);
  // All measured ones of these nodes, if they can certainly form a pipeline once free: of their
  // loaded or stored stages with at most two gaps, each filled by one node, and without fetching
  // layers. Empty: that is unknown before the search.
  std::vector<std::string> sure(const std::vector<Node*>& nodes) const;

  // Whether better() may ever return something for the layer split that is used now.
  bool may_improve() const { return is_auto() && !pool_.has_cut(); }
  // Under Objective::kAuto: the pipelines that all nodes, free or running, would form if all
  // pipelines ended now, if that gains more than placement::kAutoMargin. Nothing: it gains less, is
  // not known yet, a node is doubtful or unmeasured, or there are more than limits::kExactNodes.
  std::optional<Better> better(std::vector<Node*> nodes, const std::vector<Placed>& running);
  // From now on choose() returns these pipelines one after the other, while their nodes are free.
  void adopt(const Better& better);

  // The reason, a sentence, after choose() returned nothing; empty when no node was free.
  const std::string& waiting() const { return waiting_; }
  // Likewise: whether the same nodes may still form a pipeline, because they settle, are measured
  // or searched; within two minutes of their arrival.
  bool hopes() const { return hopes_; }
  // Why the last successful choose() left a node out; for a later node, what the free nodes wait
  // for. Empty while hopes().
  std::string why_spare(const std::string& node) const;
  // The times of the steps of this pipeline. Nothing: a node or link of it is unmeasured.
  std::optional<placement::StepTimes> times_of(const Placed& placed) const;
  // Which of these nodes may form groups, as placement::Problem has it; empty: groups are off, or
  // these are more nodes than limits::kExactNodes.
  std::vector<std::uint32_t> islands_of(const std::vector<const Node*>& nodes) const;

 private:
  struct Search;
  struct Improvement;
  struct AdoptedRank {
    std::string name;
    std::uint32_t part = 0;
  };
  struct Adopted {
    std::vector<LayerRange> layers;                // by stage
    std::vector<std::vector<AdoptedRank>> stages;  // by stage and rank; one: it computes alone
  };

  bool is_auto() const;
  bool may_group() const { return options_.ranks == 0; }

  std::string question(const std::vector<Node*>& free) const;
  bool settled(const std::vector<Node*>& free);
  // Whether a recent node, or a link of it, may still be measured.
  bool measuring(const std::vector<Node*>& free);
  placement::Problem problem_of(const std::vector<Node*>& nodes) const;
  // Null: the search is under way.
  std::shared_ptr<const Search> search(const std::vector<Node*>& free, const std::string& asked);
  // The loaded or stored stages with the best nodes for the gaps, if placement::cost_seconds() of
  // that pipeline is at most `most`.
  std::optional<Placed> kept(const std::vector<Node*>& nodes, double most) const;
  std::optional<Placed> next_adopted(const std::vector<Node*>& free);
  bool is_searching() const;
  void run_elsewhere(std::size_t nodes, std::function<void()> work);
  // Sets waiting() when a kept plan has no pipeline now.
  std::optional<Placed> from_pool(const std::vector<Node*>& free, bool beside);
  Placed take(const Search& search, const std::vector<Node*>& free);

  const CoordinatorOptions& options_;
  const Clock& clock_;
  const LinkBook& links_;
  std::string waiting_;
  bool hopes_ = false;
  std::string unanswered_;  // the last search without a result, which is not repeated
  std::string why_unanswered_;
  std::string without_pipeline_;              // likewise, for the nodes that wait in the pool
  std::shared_ptr<Search> search_;            // under way on another thread, or its result
  std::shared_ptr<Improvement> improvement_;  // likewise, of better()
  std::vector<Adopted> adopted_;              // next results of choose()
  std::map<std::string, std::string> spares_;
  RangePool pool_;
};

}  // namespace hearth::coordinator

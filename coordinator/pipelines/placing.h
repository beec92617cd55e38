// Placing: chooses the free nodes of a pipeline and their layers by measurements
// (placement/plan.h). A node without measurements is not placed.
//
// Before anything is loaded, it waits until no node has joined for some time and every link is
// measured. Under Objective::kAuto it waits only for the nodes, and an unmeasured link counts as an
// ordinary one. Similar figures then count as equal (placement/alike.h), and a running plan stays
// unless another gains more than placement::kAutoMargin. Later, a node with a loaded stage, or with
// its layers on the disk, keeps it if that costs little. A lost stage goes to the node that makes
// the pipeline quickest, and no other node loads anything. With more than a few nodes, loaded
// stages are kept at any cost, because the search would block. With nothing loaded, the search runs
// on another thread.
//
// With more than limits::kExactNodes free nodes, one layer split is planned for all pipelines. It
// is kept while one of them runs or can form (coordinator/pipelines/range_pool.h).
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

  // A pipeline of the free nodes, in their order. Doubtful nodes (late, or with lost links) are
  // taken only when the others do not hold the model. `beside`: other pipelines run. Nothing:
  // waiting() has the reason.
  std::optional<Placed> choose(std::vector<Node*> free, bool beside = false);
  // The nodes among these that will certainly form a pipeline once free, without fetching anything:
  // by their loaded layers, or one node alone. Empty: unknown before the search.
  std::vector<std::string> sure(const std::vector<Node*>& nodes) const;

  // Under Objective::kAuto: the pipelines that all nodes, free or running, would form if all
  // pipelines ended now, if that gains more than placement::kAutoMargin. Nothing: no gain, not
  // known yet, or more than limits::kExactNodes nodes.
  std::optional<Better> better(std::vector<Node*> nodes, const std::vector<Placed>& running);
  // From now on choose() returns these pipelines one after the other, while their nodes are free.
  void adopt(const Better& better);

  // The reason, a sentence, after choose() returned nothing.
  const std::string& waiting() const { return waiting_; }
  // Likewise: whether the same nodes may form a pipeline later, within two minutes of their
  // arrival.
  bool hopes() const { return hopes_; }
  // Why the last successful choose() left a node out; for a later node, what the free nodes wait
  // for.
  std::string why_spare(const std::string& node) const;

 private:
  struct Search;
  struct Improvement;
  struct Adopted {
    std::vector<std::string> names;
    std::vector<LayerRange> layers;
  };

  bool is_auto() const;

  std::string question(const std::vector<Node*>& free) const;
  bool settled(const std::vector<Node*>& free);
  // Whether a recent node, or a link of it, may still be measured.
  bool measuring(const std::vector<Node*>& free);
  placement::Problem problem_of(const std::vector<Node*>& nodes) const;
  // Null: the search is under way.
  std::shared_ptr<const Search> search(const std::vector<Node*>& free, const std::string& asked);
  // The loaded stages with the best nodes for the gaps, if its cost is at most `most`.
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

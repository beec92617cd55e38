// Placing: which free nodes form a pipeline and which layers each has, by what was measured
// (placement/plan.h). A node that has measured nothing is not placed.
//
// Before anything is loaded it waits until no node has joined for a while and every way is
// measured; under Objective::kAuto only for the nodes themselves, and a way that is not measured
// counts as an ordinary one. There, figures that are alike count as one (placement/alike.h), and a
// plan that runs stays unless another one gains more than placement::kAutoMargin. Afterwards who
// has loaded a stage, or has its layers on the disk, keeps it where that costs little: a lost stage
// goes to the node that makes the whole quickest, and no other node loads anything. Of more than a
// few nodes what is loaded is kept whatever it costs, for the search would hold everybody up, and
// where nothing is loaded the search is made elsewhere.
//
// Of more than limits::kExactNodes free nodes one cut is planned for all pipelines, and kept for as
// long as one of them runs or can be formed (coordinator/pipelines/range_pool.h).
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

// Pipelines that would do more than those that run.
struct Better {
  std::vector<Placed> pipelines;
  std::string gain;  // "one stream 120 tokens/s instead of 95, all streams 480 instead of 300"
};

class Placing {
 public:
  Placing(const CoordinatorOptions& options, const Clock& clock, const LinkBook& links);

  // Of the free nodes, in their order; who is in doubt (late, or part of lost links) is taken where
  // the others do not hold the model. `beside`: other pipelines run. Nothing: waiting() says for
  // what.
  std::optional<Placed> choose(std::vector<Node*> free, bool beside = false);
  // Those of these nodes of which there will be a pipeline when they are free: with what is loaded,
  // or by one node alone, and without fetching anything. Empty: unknown before the search.
  std::vector<std::string> sure(const std::vector<Node*>& nodes) const;

  // Under Objective::kAuto: what the nodes, free ones and those of the running pipelines, would
  // form if all pipelines ended now, where that gains more than placement::kAutoMargin. Nothing:
  // they would not, or it is not known yet. Of more than limits::kExactNodes nodes nothing.
  std::optional<Better> better(std::vector<Node*> nodes, const std::vector<Placed>& running);
  // From here on choose() gives these pipelines, one after the other, while their nodes are free.
  void adopt(const Better& better);

  // A sentence, after choose() gave nothing.
  const std::string& waiting() const { return waiting_; }
  // Then: it may give something of the same nodes later, within two minutes of their coming.
  bool hopes() const { return hopes_; }
  // Why a node was left out when choose() last gave something; of one that came later, what those
  // who are free wait for.
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
  // Whether one of them came so lately that it, or a way of it, may yet be measured.
  bool measuring(const std::vector<Node*>& free);
  placement::Problem problem_of(const std::vector<Node*>& nodes) const;
  // Nothing: it is under way.
  std::shared_ptr<const Search> search(const std::vector<Node*>& free, const std::string& asked);
  // What is there and who fills its gaps best, where that takes at most so long.
  std::optional<Placed> kept(const std::vector<Node*>& nodes, double most) const;
  std::optional<Placed> next_adopted(const std::vector<Node*>& free);
  bool is_searching() const;
  void run_elsewhere(std::size_t nodes, std::function<void()> work);
  // Sets waiting() where a plan is kept of which there is no pipeline now.
  std::optional<Placed> from_pool(const std::vector<Node*>& free, bool beside);
  Placed take(const Search& search, const std::vector<Node*>& free);

  const CoordinatorOptions& options_;
  const Clock& clock_;
  const LinkBook& links_;
  std::string waiting_;
  bool hopes_ = false;
  std::string unanswered_;  // the question to which there was no answer: it is not asked again
  std::string why_unanswered_;
  std::string without_pipeline_;              // likewise, of the nodes that wait in the pool
  std::shared_ptr<Search> search_;            // under way elsewhere, or its answer
  std::shared_ptr<Improvement> improvement_;  // likewise, of better()
  std::vector<Adopted> adopted_;              // that choose() gives next
  std::map<std::string, std::string> spares_;
  RangePool pool_;
};

}  // namespace hearth::coordinator

// StandingView: the standings of the ledger as the coordinator uses them: the level and the owner
// of a node, the level of a pipeline, and which pipelines may audit which others.
//
// One thread.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/scheduling/scheduler.h"
#include "coordinator/workers/registry.h"
#include "ledger/standing.h"
#include "proto/link/transport.h"

namespace hearth::coordinator {

class StandingView {
 public:
  // All outlive this object. `control` knows the key at the other end of a link.
  StandingView(const CoordinatorOptions& options, const Transport& control,
               const Registry& registry, Pipelines& pipelines, Scheduler& scheduler);

  // Takes the newest standings of the ledger, and ranks the pools by them when they changed.
  void refresh();
  // Gives each pool of the scheduler its level, and whether another pipeline can audit it.
  void rank_pools();

  // Of the node at the other end of a control link. Nothing where the log does not name it.
  std::optional<NodeStanding> of(LinkId link) const;
  // The name of its owner, empty where the owner has none.
  std::string owner_name(LinkId link) const;
  // The lowest level among these nodes. A node that the log does not name yet counts as one on
  // probation, since the cluster vouches for it. Without audits every level is kNewcomer.
  ledger::Level level_of(const std::vector<std::string>& nodes) const;
  // The pipelines that may audit this one: of the same layer split, with no owner in common, and
  // with no owner of two stages (coordinator/proof/pipeline_owners.h).
  std::vector<Epoch> twins_of(const Pipeline& pipeline) const;

 private:
  std::multiset<std::string> owners_of(const Pipeline& pipeline) const;

  const CoordinatorOptions& options_;
  const Transport& control_;
  const Registry& registry_;
  Pipelines& pipelines_;
  Scheduler& scheduler_;
  std::shared_ptr<const Standings> standings_;
};

}  // namespace hearth::coordinator

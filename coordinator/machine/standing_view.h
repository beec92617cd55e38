// StandingView: the ledger's standings for the coordinator: the level and owner of a node, the
// level of a pipeline, and which pipelines may audit each other.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/machine/machine_parts.h"
#include "coordinator/pipelines/pipelines.h"

namespace hearth::coordinator {

class StandingView : MachineParts {
 public:
  explicit StandingView(const MachineParts& parts) : MachineParts(parts) {}

  // Takes the ledger's newest standings, and ranks the pools again when they changed.
  void refresh();
  // Gives each pool of the scheduler its level, and whether another pipeline can audit it.
  void rank_pools();

  // The standing of the node at the far end of a control link. Nothing when the log does not name
  // it.
  std::optional<NodeStanding> of(LinkId link) const;
  // The name of its owner; may be empty.
  std::string owner_name(LinkId link) const;
  // The lowest level among these nodes. A node that the log does not name yet counts as one on
  // probation, because the cluster vouches for it. Without audits every level is kNewcomer.
  ledger::Level level_of(const std::vector<std::string>& nodes) const;
  // The pipelines that may audit this one: of the same layer split, with no owner in common, and
  // with no owner of two stages (coordinator/proof/pipeline_owners.h).
  std::vector<Epoch> twins_of(const Pipeline& pipeline) const;
  // Every pipeline, by epoch, with what its pool of the scheduler runs, its level and its twins.
  std::vector<PipelineStatus> pipeline_statuses() const;

 private:
  std::multiset<std::string> owners_of(const Pipeline& pipeline) const;

  std::shared_ptr<const Standings> standings_of_log_;
};

}  // namespace hearth::coordinator

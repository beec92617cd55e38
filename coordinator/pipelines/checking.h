// Checking pipelines: newcomers, whose agreement moves only their own standing, compute again what
// pipelines that serve have computed (ledger/PROTOCOL.md, 4 and 5). They stand in the same cut as
// one that serves, and no prompt reaches them but the coordinator's own and those that their owners
// share. Where newcomers do not cover all layers, nodes of standing that no pipeline has help, and
// go back as soon as one may want them.
//
// Pure functions of what a coordinator knows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/audit_outcome.h"
#include "coordinator/pipelines/range_pool.h"
#include "ledger/policy.h"

namespace hearth::coordinator {

// Nodes for these layers, by stage, at least one of them a newcomer: newcomers first, each with
// room for its layers, and of those who has loaded them, then who holds them, then who has the
// least room. Nothing: no node is left for a stage, which `missing` then names.
std::optional<Placed> place_checkers(const std::vector<LayerRange>& cut,
                                     std::vector<Node*> newcomers, std::vector<Node*> spares,
                                     LayerRange* missing = nullptr);

// "12 of 100 windows, on 2 of 3 days" of the dues that the log shows; nothing there: none yet.
std::string dues_text(const ledger::Policy& policy, const std::optional<NodeStanding>& standing);

}  // namespace hearth::coordinator

// The coordinator's view of standings: of nodes, and of the pipelines that they form.
#include <algorithm>
#include <set>

#include "coordinator/machine/coordinator_machine.h"
#include "coordinator/proof/receipts.h"

namespace hearth::coordinator {
namespace {

bool same_cut(const Pipeline& a, const Pipeline& b) {
  return a.model == b.model &&
         std::ranges::equal(a.members, b.members, {}, &Member::layers, &Member::layers);
}

}  // namespace

std::optional<NodeStanding> CoordinatorMachine::standing_of(LinkId link) const {
  const auto peer = control_.peer(link);
  if (!standings_ || !peer) return std::nullopt;
  const auto found = standings_->find(peer->key);
  return found == standings_->end() ? std::nullopt : std::optional(found->second);
}

std::string CoordinatorMachine::owner_name(LinkId link) const {
  const auto peer = control_.peer(link);
  const auto owner = peer && options_.owner_of ? options_.owner_of(peer->key) : std::nullopt;
  return owner ? owner->name : "";
}

// Whom the log does not name yet begins where those begin that the cluster vouches for; where
// nothing is audited nobody has a level.
ledger::Level CoordinatorMachine::level_of(const std::vector<std::string>& nodes) const {
  ledger::Level lowest = ledger::Level::kVeteran;
  if (!standings_) return ledger::Level::kNewcomer;
  for (const Node* node : registry_.all()) {
    if (std::ranges::count(nodes, node->status.name) == 0) continue;
    if (node->status.newcomer) return ledger::Level::kNewcomer;
    const auto standing = standing_of(node->link).value_or(NodeStanding{ledger::Level::kProbation});
    lowest = std::min(lowest, standing.is_tombstoned ? ledger::Level::kNewcomer : standing.level);
  }
  return lowest;
}

// Of the stages whose owner somebody has named.
std::multiset<std::string> CoordinatorMachine::owners_of(const Pipeline& pipeline) const {
  std::multiset<std::string> owners;
  for (const Member& member : pipeline.members) {
    if (std::string owner = owner_name(member.link); !owner.empty())
      owners.insert(std::move(owner));
  }
  return owners;
}

// No owner audits itself, and none has two stages of an audit
// (coordinator/proof/pipeline_owners.h).
std::vector<Epoch> CoordinatorMachine::twins_of(const Pipeline& pipeline) const {
  std::vector<Epoch> twins;
  if (!pipeline.model || !standings_ || pipeline.checking) return twins;
  const std::multiset<std::string> own = owners_of(pipeline);
  for (const auto& [epoch, other] : pipelines_.all()) {
    if (epoch == pipeline.epoch || !other.serving || other.checking) continue;
    if (!same_cut(pipeline, other)) continue;
    const std::multiset<std::string> theirs = owners_of(other);
    const bool may = std::ranges::all_of(theirs, [&](const std::string& owner) {
      return theirs.count(owner) == 1 && !own.contains(owner);
    });
    if (may) twins.push_back(epoch);
  }
  return twins;
}

void CoordinatorMachine::take_standings() {
  if (options_.receipts == nullptr) return;
  auto newest = options_.receipts->standings();
  if (newest == standings_) return;
  standings_ = std::move(newest);
  rank_pools();
}

void CoordinatorMachine::rank_pools() {
  for (const auto& [epoch, pool] : scheduler_.pools()) {
    const Pipeline* pipeline = pipelines_.find(epoch);
    if (pipeline == nullptr) continue;
    scheduler_.set_standing(epoch, level_of(pool.nodes), !twins_of(*pipeline).empty());
  }
}

}  // namespace hearth::coordinator

#include "coordinator/machine/standing_view.h"

#include <algorithm>
#include <utility>

#include "coordinator/proof/ledger_service.h"
#include "coordinator/scheduling/scheduler.h"
#include "coordinator/workers/registry.h"

namespace hearth::coordinator {
namespace {

bool same_split(const Pipeline& a, const Pipeline& b) {
  return a.model == b.model &&
         std::ranges::equal(a.members, b.members, {}, &Member::layers, &Member::layers);
}

}  // namespace

std::optional<NodeStanding> StandingView::of(LinkId link) const {
  const auto peer = control_.peer(link);
  if (!standings_of_log_ || !peer) return std::nullopt;
  const auto found = standings_of_log_->find(peer->key);
  return found == standings_of_log_->end() ? std::nullopt : std::optional(found->second);
}

std::string StandingView::owner_name(LinkId link) const {
  const auto peer = control_.peer(link);
  const auto owner = peer && options_.owner_of ? options_.owner_of(peer->key) : std::nullopt;
  return owner ? owner->name : "";
}

ledger::Level StandingView::level_of(const std::vector<std::string>& nodes) const {
  ledger::Level lowest = ledger::Level::kVeteran;
  if (!standings_of_log_) return ledger::Level::kNewcomer;
  for (const Node* node : registry_.all()) {
    if (std::ranges::count(nodes, node->status.name) == 0) continue;
    if (node->status.newcomer) return ledger::Level::kNewcomer;
    const auto standing = of(node->link).value_or(NodeStanding{ledger::Level::kProbation});
    lowest = std::min(lowest, standing.is_tombstoned ? ledger::Level::kNewcomer : standing.level);
  }
  return lowest;
}

// Stages without a named owner are left out.
std::multiset<std::string> StandingView::owners_of(const Pipeline& pipeline) const {
  std::multiset<std::string> owners;
  for (const Member& member : pipeline.members) {
    if (std::string owner = owner_name(member.link); !owner.empty())
      owners.insert(std::move(owner));
  }
  return owners;
}

std::vector<Epoch> StandingView::twins_of(const Pipeline& pipeline) const {
  std::vector<Epoch> twins;
  if (!pipeline.model || !standings_of_log_ || pipeline.checking) return twins;
  const std::multiset<std::string> own = owners_of(pipeline);
  for (const auto& [epoch, other] : pipelines_.all()) {
    if (epoch == pipeline.epoch || !other.serving || other.checking) continue;
    if (!same_split(pipeline, other)) continue;
    const std::multiset<std::string> theirs = owners_of(other);
    const bool may = std::ranges::all_of(theirs, [&](const std::string& owner) {
      return theirs.count(owner) == 1 && !own.contains(owner);
    });
    if (may) twins.push_back(epoch);
  }
  return twins;
}

std::vector<PipelineStatus> StandingView::pipeline_statuses() const {
  std::vector<PipelineStatus> out;
  for (const auto& [epoch, pipeline] : pipelines_.all()) {
    PipelineStatus one;
    one.epoch = epoch;
    one.state = !pipeline.serving ? "forming" : pipeline.checking ? "checking" : "serving";
    for (const Member& member : pipeline.members) {
      one.nodes.push_back(member.node);
      if (pipeline.members.size() > 1) one.routes.push_back(member.route);
    }
    const auto pool = scheduler_.pools().find(epoch);
    if (pool != scheduler_.pools().end()) {
      one.running = pool->second.running;
      one.kv_pages_reserved = pool->second.reserved;
      one.level = pool->second.level;
      one.twins = twins_of(pipeline);
    }
    one.kv_pages = pipeline.kv_pages;
    one.kv_page_tokens = pipeline.kv_page_tokens;
    if (!pipeline.keeps_prefixes) one.sequences = pipeline.sequences;
    out.push_back(std::move(one));
  }
  return out;
}

void StandingView::refresh() {
  if (options_.receipts == nullptr) return;
  auto newest = options_.receipts->standings();
  if (newest == standings_of_log_) return;
  standings_of_log_ = std::move(newest);
  rank_pools();
}

void StandingView::rank_pools() {
  for (const auto& [epoch, pool] : scheduler_.pools()) {
    const Pipeline* pipeline = pipelines_.find(epoch);
    if (pipeline == nullptr) continue;
    // Rank 0 signs the receipts of its group, and answers for it.
    std::vector<std::string> signers;
    for (const Member& member : pipeline->members) signers.push_back(member.node);
    scheduler_.set_standing(epoch, level_of(signers), !twins_of(*pipeline).empty());
  }
}

}  // namespace hearth::coordinator

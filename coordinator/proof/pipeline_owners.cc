#include "coordinator/proof/pipeline_owners.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::coordinator {
namespace {

bool share_a_node(const ReceiptPipeline& a, const ReceiptPipeline& b) {
  return std::ranges::any_of(a.stages, [&b](const ReceiptPipeline::Stage& one) {
    return std::ranges::find(b.stages, one.key, &ReceiptPipeline::Stage::key) != b.stages.end();
  });
}

// Of a member as the log says, which never changes; of a key that is not a member yet, as it will.
Hash256 owner_of(const ledger::Books& books, const ReceiptPipeline::Stage& stage) {
  if (const auto logged = books.owner(stage.key)) return *logged;
  return stage.owner == Hash256() ? blake2b(stage.key.bytes()) : stage.owner;
}

std::set<Hash256> owners_of(const ledger::Books& books, const ReceiptPipeline& pipeline) {
  std::set<Hash256> owners;
  for (const ReceiptPipeline::Stage& stage : pipeline.stages) owners.insert(owner_of(books, stage));
  return owners;
}

// Whether no stage is below this level. Whom the log does not name yet begins where those begin
// that the cluster vouches for.
bool is_at_level(const ledger::Books& books, const ReceiptPipeline& pipeline, ledger::Level least) {
  if (pipeline.checks && least > ledger::Level::kNewcomer) return false;
  return std::ranges::all_of(pipeline.stages, [&](const ReceiptPipeline::Stage& one) {
    const ledger::Standing* standing = books.standing(one.key);
    if (standing == nullptr) return least <= ledger::Level::kProbation;
    return !standing->is_tombstoned() && standing->level(books.policy(), books.time()) >= least;
  });
}

// Whether all stages are of these nodes, by their names; of any where none is named.
bool is_within(const ReceiptPipeline& pipeline, const std::vector<std::string>& trust) {
  return trust.empty() ||
         std::ranges::all_of(pipeline.stages, [&trust](const ReceiptPipeline::Stage& one) {
           return std::ranges::count(trust, one.node) > 0;
         });
}

}  // namespace

bool same_cut(const ReceiptPipeline& a, const ReceiptPipeline& b) {
  return a.program == b.program &&
         std::ranges::equal(a.stages, b.stages, {}, &ReceiptPipeline::Stage::layers,
                            &ReceiptPipeline::Stage::layers);
}

AuditorChoice choose_auditor(const ledger::Books& books,
                             const std::map<Epoch, std::shared_ptr<const ReceiptPipeline>>& all,
                             const AuditCase& request, const std::set<Epoch>& tried,
                             bool is_check) {
  const ReceiptPipeline& own = request.pipeline();
  const std::set<Hash256> own_owners = owners_of(books, own);
  std::vector<std::shared_ptr<const ReceiptPipeline>> fit;
  std::vector<ledger::Draw::Candidate> candidates;
  std::vector<std::shared_ptr<const ReceiptPipeline>> checking;
  bool owners_only = false;
  for (const auto& [epoch, one] : all) {
    if (one->checks && !request.request().policy.share) continue;
    if (!same_cut(*one, own) || share_a_node(*one, own) || tried.contains(epoch)) continue;
    if (!is_within(*one, request.request().policy.trust)) continue;
    if (!is_at_level(books, *one, request.request().policy.min_level)) continue;
    const std::set<Hash256> owners = owners_of(books, *one);
    const bool is_shared = std::ranges::any_of(
        owners, [&](const Hash256& owner) { return own_owners.contains(owner); });
    if (is_shared || owners.size() < one->stages.size()) {
      owners_only = true;
      continue;
    }
    (one->checks ? checking : fit).push_back(one);
  }
  if (is_check || fit.empty()) fit = std::move(checking);
  if (fit.empty()) return {nullptr, owners_only};
  if (!books.draw()) return {};
  for (const auto& one : fit) {
    candidates.push_back({one->stages.front().key, owner_of(books, one->stages.front())});
  }
  const auto named = books.draw()->auditor(*request.wanted.begin(), candidates, {});
  INVARIANT(named.has_value(), "a draw over candidates names one");
  const auto place = std::ranges::find(candidates, *named, &ledger::Draw::Candidate::key);
  INVARIANT(place != candidates.end(), "a draw names one of its candidates");
  return {fit[static_cast<std::size_t>(place - candidates.begin())], false};
}

}  // namespace hearth::coordinator

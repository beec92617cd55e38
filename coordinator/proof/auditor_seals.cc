// The audit desk's part from what was computed again to what the log says of it: seals, openings,
// and what the coordinator's own referee found.
#include <spdlog/spdlog.h>

#include "base/hex.h"
#include "coordinator/proof/auditor.h"

namespace hearth::coordinator {
namespace {

// Why windows after the first difference are not audited.
constexpr const char* kOtherInput =
    "an earlier window or stage differs, so these windows had another input";

}  // namespace

// --- seals ---

void Auditor::settle(const Key& key, Kept& kept) {
  if (kept.state != State::kRunning || !kept.run.is_whole()) return;
  const Status whole = kept.request.check_whole(kept.run);
  if (!whole.ok()) {
    const ReceiptPipeline::Stage& last = kept.run.pipeline->stages.back();
    if (kept.request.has_read_tokens(kept.run)) verdicts_.keys().bar_copier(last.node, last.key);
    return try_again(key, kept, whole.error().message);
  }
  runs_.erase(kept.run.name);
  if (!kept.run.is_fed && !kept.request.same_tokens(kept.run)) {
    spdlog::warn("request {}: pipeline {} samples other tokens than pipeline {} did",
                 to_hex(key.first), kept.run.pipeline->epoch.value, key.second.value);
    const auto on = kept.run.pipeline;
    kept.generated = std::exchange(kept.run, {});
    return run(key, kept, on, true);
  }
  const AuditCase::Run& generated = kept.generated ? *kept.generated : kept.run;
  const auto findings = kept.request.judge(generated, kept.generated ? &kept.run : nullptr);
  if (!findings) return try_again(key, kept, findings.error().message);
  if (!findings->beyond.empty()) report_beyond(key, kept, findings->beyond);
  ask_for_seals(key, kept, *findings);
  start_runs();
}

// Each auditor that differs is asked, wanted or not.
void Auditor::ask_for_seals(const Key& key, Kept& kept, const AuditCase::Findings& findings) {
  for (const AuditCase::Finding& one : findings.all) {
    if (one.agrees && !kept.request.wanted.contains(one.entry)) continue;
    const ReceiptPipeline::Stage& stage = kept.run.pipeline->stages[one.stage];
    kept.seals.add({stage.node, stage.key, one});
  }
  for (NodeMessage& order : kept.seals.seal_orders()) out_.messages.push_back(std::move(order));
  kept.enter(State::kSealing, clock_.now());
  if (!kept.seals.is_empty()) return;
  forget(cases_.find(key), findings.beyond.empty() ? kOtherInput : findings.beyond);
}

// Of the request that the coordinator's own referee was asked about. Where it has nothing to say,
// what is wanted is computed by a pipeline after all.
void Auditor::refereed(std::uint64_t number, const Result<ledger::RefereeFinding>& finding) {
  const auto key = own_referee_.answered(number);
  const auto one = key ? cases_.find(*key) : cases_.end();
  if (one == cases_.end() || one->second.state != State::kRefereed) return;
  Kept& kept = one->second;
  const auto findings =
      finding ? findings_of(kept.request, *finding) : Result<AuditCase::Findings>(finding.error());
  if (!findings) {
    own_referee_.missed(std::exchange(kept.refereed, {}).size(), findings.error().message);
    if (kept.request.wanted.empty()) return forget(one, "");
    kept.enter(State::kWaiting, clock_.now());
    return start_runs();
  }
  if (!findings->beyond.empty()) report_beyond(*key, kept, findings->beyond);
  for (const AuditCase::Finding& found : findings->all) {
    const bool is_wanted =
        kept.request.wanted.contains(found.entry) || kept.refereed.contains(found.entry);
    if (found.agrees && !is_wanted) continue;
    say(cluster_.public_key(), kept.seals.seal_own(found, cluster_));
  }
  kept.enter(State::kSealing, clock_.now());
}

// The last stage of the pipeline, or of the one that computed it again, lies.
void Auditor::report_beyond(const Key& key, const Kept& kept, const std::string& what) {
  spdlog::error(
      "request {}: {}, which no receipt covers: stage {} of pipeline {} is false, or its "
      "auditor is",
      to_hex(key.first), what, kept.request.pipeline().stages.size(), key.second.value);
  ++counts_.disputed_total;
}

// The round in which the node is asked about that entry, in that state.
Result<SealRound*> Auditor::round_of(const std::string& node, std::uint64_t entry, State state) {
  const std::string what = "entry " + std::to_string(entry);
  const auto key = by_entry_.find(entry);
  Kept* kept = key == by_entry_.end() ? nullptr : &cases_.at(key->second);
  const SealRound::Asked* asked = kept == nullptr ? nullptr : kept->seals.find(entry);
  REQUIRE(asked != nullptr && asked->node == node && kept->state == state, what,
          ": it was not asked for that ", (state == State::kSealing ? "seal" : "opening"));
  REQUIRE(!verdicts_.keys().is_ended(asked->key), what, ": a verdict bars this auditor");
  return &kept->seals;
}

void Auditor::take(const std::string& node, const control::v1::Seals& seals) {
  for (const control::v1::Seal& seal : seals.seals()) {
    const auto round = round_of(node, seal.entry(), State::kSealing);
    const auto said = round ? (*round)->take(node, seal, cluster_.public_key())
                            : Result<ledger::SealEntry>(round.error());
    if (said) {
      say(said->auditor, *said);
    } else {
      spdlog::error("node {}: its seal is refused: {}", node, said.error().message);
    }
  }
}

void Auditor::on_entry(const ledger::SealEntry& seal) {
  const auto key = by_entry_.find(seal.receipt);
  if (key == by_entry_.end()) return;
  Kept& kept = cases_.at(key->second);
  const SealRound::Asked* asked = kept.seals.find(seal.receipt);
  if (asked == nullptr || asked->key != seal.auditor || !asked->seal) return;
  kept.seals.sealed(seal.receipt);
  if (kept.state != State::kSealing || !kept.seals.is_all_sealed()) return;
  for (const ledger::OpeningEntry& own : kept.seals.open_own()) say(cluster_.public_key(), own);
  for (NodeMessage& order : kept.seals.open_orders()) out_.messages.push_back(std::move(order));
  kept.enter(State::kOpening, clock_.now());
}

// --- openings ---

void Auditor::take(const std::string& node, const control::v1::Openings& openings) {
  for (const control::v1::Opening& opening : openings.openings()) {
    const auto round = round_of(node, opening.entry(), State::kOpening);
    const auto said =
        round ? (*round)->take(node, opening) : Result<ledger::OpeningEntry>(round.error());
    if (said) {
      say(said->auditor, *said);
    } else {
      spdlog::error("node {}: its opening is refused: {}", node, said.error().message);
    }
  }
}

void Auditor::on_entry(const ledger::OpeningEntry& opening) {
  const auto key = by_entry_.find(opening.receipt);
  if (key == by_entry_.end()) return;
  const auto one = cases_.find(key->second);
  Kept& kept = one->second;
  const SealRound::Asked* sealed = kept.seals.find(opening.receipt);
  if (sealed == nullptr || sealed->key != opening.auditor || !sealed->seal) return;
  const SealRound::Asked asked = kept.seals.opened(opening.receipt);
  const AuditCase::Finding& finding = asked.finding;
  ++(finding.agrees ? counts_.agreed_total : counts_.disputed_total);
  bool judged = false;
  if (!finding.agrees) {
    const ReceiptPipeline& own = kept.request.pipeline();
    spdlog::error(
        "in dispute: entry {}, request {}, window {}, stage {} (layers {}): node {} and its "
        "auditor {} computed different outputs from the same input",
        opening.receipt, to_hex(one->first.first), finding.window, finding.stage + 1,
        text_of(own.stages[finding.stage].layers), own.stages[finding.stage].node,
        asked.node.empty() ? "(this server's referee)" : asked.node);
    judged = verdicts_.begin({kept.request, finding, kept.generated ? *kept.generated : kept.run,
                              kept.generated ? std::optional(kept.run) : std::nullopt, asked.node,
                              asked.key, kept.receipts, *asked.seal, opening.salt});
  }
  // From here on nothing is said of it but in the log; the last one ends it.
  const bool wanted = kept.request.wanted.erase(opening.receipt) > 0;
  kept.refereed.erase(opening.receipt);
  if (!wanted || kept.is_check) ++counts_.selected_total;
  // The referee's own has no run.
  if (kept.run.pipeline != nullptr && kept.run.pipeline->checks) ++counts_.checked_total;
  report_opening(kept, opening.receipt, finding, judged);
  if (!kept.seals.is_empty()) return;
  if (kept.request.wanted.empty() && !kept.dispute) {
    out_.outcomes.push_back(kept.outcome(AuditOutcome::Kind::kAgreed));
    return forget(one, "");
  }
  forget(one, kOtherInput);
}

// --- what is said of it ---

AuditOutcome Auditor::Kept::outcome(AuditOutcome::Kind kind) const {
  AuditOutcome out{kind, request.request().order.request, request.request().epoch};
  out.windows = agreed;
  return out;
}

void Auditor::report_opening(Kept& kept, std::uint64_t entry, const AuditCase::Finding& finding,
                             bool judged) {
  if (finding.agrees) return kept.agreed.push_back({entry, finding.stage, finding.window, 1});
  if (kept.dispute) return;
  kept.dispute = kept.request.disputed(finding);
  kept.dispute->awaits_verdict = judged;
}

}  // namespace hearth::coordinator

// The audit desk's part from what was computed again to what the log says of it: seals, openings,
// and what the coordinator's own referee found.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/hex.h"
#include "coordinator/proof/audit_desk.h"
#include "coordinator/proof/ruling.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {

// --- seals ---

void AuditDesk::settle(const Key& key, Kept& kept) {
  if (kept.state != State::kRunning || !kept.run.is_whole()) return;
  const Status whole = kept.request.check_whole(kept.run);
  if (!whole.ok()) {
    const ReceiptPipeline::Stage& last = kept.run.pipeline->stages.back();
    if (kept.request.has_read_tokens(kept.run)) verdicts_.refuse(last.node, last.key);
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

// Whoever differs is asked, wanted or not.
void AuditDesk::ask_for_seals(const Key& key, Kept& kept, const AuditCase::Findings& findings) {
  std::map<std::string, control::v1::SealOrder> orders;
  for (const AuditCase::Finding& one : findings.all) {
    if (one.agrees && !kept.request.wanted.contains(one.entry)) continue;
    const ReceiptPipeline::Stage& stage = kept.run.pipeline->stages[one.stage];
    kept.asked[one.entry] = {stage.node, stage.key, one, {}, false, false};
    control::v1::AuditedWindow& window = *orders[stage.node].add_windows();
    window.set_request(to_field(one.run));
    window.set_epoch(one.epoch.value);
    window.set_window(one.window);
    window.set_entry(one.entry);
  }
  for (auto& [node, order] : orders) {
    Message& message = messages_.emplace_back();
    message.node = node;
    *message.body.mutable_seal_order() = std::move(order);
  }
  enter(kept, State::kSealing);
  if (!kept.asked.empty()) return;
  forget(cases_.find(key), findings.beyond.empty() ? "what came in there was computed "
                                                     "otherwise already"
                                                   : findings.beyond);
}

// Of the request that the coordinator's own referee was asked about. Where it has nothing to say,
// what is wanted is computed by a pipeline after all.
void AuditDesk::refereed(std::uint64_t number, const Result<RefereeFinding>& finding) {
  const auto key = own_referee_.answered(number);
  const auto one = key ? cases_.find(*key) : cases_.end();
  if (one == cases_.end() || one->second.state != State::kRefereed) return;
  Kept& kept = one->second;
  const auto findings =
      finding ? findings_of(kept.request, *finding) : Result<AuditCase::Findings>(finding.error());
  if (!findings) {
    referee_missed(std::exchange(kept.refereed, {}).size(), findings.error().message);
    if (kept.request.wanted.empty()) return forget(one, "");
    enter(kept, State::kWaiting);
    return start_runs();
  }
  if (!findings->beyond.empty()) report_beyond(*key, kept, findings->beyond);
  for (const AuditCase::Finding& found : findings->all) {
    const bool is_wanted =
        kept.request.wanted.contains(found.entry) || kept.refereed.contains(found.entry);
    if (found.agrees && !is_wanted) continue;
    const ledger::SealEntry seal = own_referee_.seal(found.entry, found.root);
    kept.asked[found.entry] = {"", own_referee_.key(), found, seal, false, false};
    entries_.push_back({own_referee_.key(), seal});
  }
  enter(kept, State::kSealing);
}

// The last stage of the pipeline, or of the one that computed it again, lies.
void AuditDesk::report_beyond(const Key& key, const Kept& kept, const std::string& what) {
  spdlog::error(
      "request {}: {}, which is in no receipt: stage {} of pipeline {} lies, or whoever "
      "computed it again",
      to_hex(key.first), what, kept.request.pipeline().stages.size() - 1, key.second.value);
  ++counts_.disputed_total;
}

AuditDesk::Asked* AuditDesk::asked_of(const std::string& node, std::uint64_t entry, State state) {
  const auto key = by_entry_.find(entry);
  if (key == by_entry_.end()) return nullptr;
  Kept& kept = cases_.at(key->second);
  const auto asked = kept.asked.find(entry);
  const bool is_its =
      asked != kept.asked.end() && kept.state == state && asked->second.node == node;
  return is_its ? &asked->second : nullptr;
}

void AuditDesk::take(const std::string& node, const control::v1::Seals& seals) {
  for (const control::v1::Seal& seal : seals.seals()) {
    const Status taken = take_seal(node, seal);
    if (!taken.ok()) spdlog::error("node {}: no seal: {}", node, taken.error().message);
  }
}

Status AuditDesk::take_seal(const std::string& node, const control::v1::Seal& seal) {
  const std::string what = "entry " + std::to_string(seal.entry());
  Asked* asked = asked_of(node, seal.entry(), State::kSealing);
  REQUIRE(asked != nullptr, what + ": nobody asked it for that seal");
  REQUIRE(!asked->seal, what + ": it sealed that already");
  REQUIRE(!verdicts_.is_ended(asked->key), what + ": a verdict has ended what it may check");
  ledger::SealEntry said{seal.entry(), asked->key, {}, {}};
  REQUIRE(read_field(seal.seal(), said.seal.bytes) && read_field(seal.signature(), said.signature),
          what + ": a seal or a signature of a wrong length");
  REQUIRE(ledger::check_seal(said, cluster_.public_key()),
          what + ": the signature of the seal is not its own");
  asked->seal = said;
  entries_.push_back({asked->key, said});
  return ok_status();
}

void AuditDesk::on_seal(const ledger::SealEntry& seal) {
  const auto key = by_entry_.find(seal.receipt);
  if (key == by_entry_.end()) return;
  Kept& kept = cases_.at(key->second);
  const auto asked = kept.asked.find(seal.receipt);
  if (asked == kept.asked.end() || asked->second.key != seal.auditor) return;
  asked->second.is_sealed = true;
  if (kept.state != State::kSealing) return;
  if (std::ranges::all_of(kept.asked, [](const auto& one) { return one.second.is_sealed; })) {
    open_all(kept);
  }
}

void AuditDesk::open_all(Kept& kept) {
  std::map<std::string, control::v1::OpenOrder> orders;
  for (auto& [entry, one] : kept.asked) {
    if (one.node.empty()) {
      one.is_opened = true;
      entries_.push_back({one.key, own_referee_.open(entry)});
    } else {
      orders[one.node].add_entries(entry);
    }
  }
  for (auto& [node, order] : orders) {
    Message& message = messages_.emplace_back();
    message.node = node;
    *message.body.mutable_open_order() = std::move(order);
  }
  enter(kept, State::kOpening);
}

// --- openings ---

void AuditDesk::take(const std::string& node, const control::v1::Openings& openings) {
  for (const control::v1::Opening& opening : openings.openings()) {
    const Status taken = take_opening(node, opening);
    if (!taken.ok()) spdlog::error("node {}: no opening: {}", node, taken.error().message);
  }
}

Status AuditDesk::take_opening(const std::string& node, const control::v1::Opening& opening) {
  const std::string what = "entry " + std::to_string(opening.entry());
  Asked* asked = asked_of(node, opening.entry(), State::kOpening);
  REQUIRE(asked != nullptr && !asked->is_opened, what + ": nobody asked it to open that");
  REQUIRE(!verdicts_.is_ended(asked->key), what + ": a verdict has ended what it may check");
  ledger::OpeningEntry said{opening.entry(), asked->key, {}, {}};
  REQUIRE(
      read_field(opening.root(), said.root.bytes) && read_field(opening.salt(), said.salt.bytes),
      what + ": a root or a salt of a wrong length");
  REQUIRE(ledger::seal_of(said.receipt, said.auditor, said.root, said.salt) == asked->seal->seal,
          what + ": that is not what it sealed");
  REQUIRE(said.root == asked->finding.root, what + ": that is not what it claimed");
  asked->is_opened = true;
  entries_.push_back({asked->key, said});
  return ok_status();
}

void AuditDesk::on_opening(const ledger::OpeningEntry& opening) {
  const auto key = by_entry_.find(opening.receipt);
  if (key == by_entry_.end()) return;
  const auto one = cases_.find(key->second);
  Kept& kept = one->second;
  const auto asked = kept.asked.find(opening.receipt);
  if (asked == kept.asked.end() || asked->second.key != opening.auditor) return;
  const AuditCase::Finding& finding = asked->second.finding;
  ++(finding.agrees ? counts_.agreed_total : counts_.disputed_total);
  bool judged = false;
  if (!finding.agrees) {
    const ReceiptPipeline& own = kept.request.pipeline();
    spdlog::error(
        "in dispute: entry {}, request {}, window {}, stage {} (layers {}): node {} and its "
        "auditor {} had the same input and come to different output",
        opening.receipt, to_hex(one->first.first), finding.window, finding.stage,
        text_of(own.stages[finding.stage].layers), own.stages[finding.stage].node,
        asked->second.node.empty() ? "(this server's referee)" : asked->second.node);
    judged = verdicts_.begin({kept.request, finding, kept.generated ? *kept.generated : kept.run,
                              kept.generated ? std::optional(kept.run) : std::nullopt,
                              asked->second.node, asked->second.key, kept.receipts,
                              *asked->second.seal, opening.salt});
  }
  // From here on nothing is said of it but in the log; the last one ends it.
  const bool wanted = kept.request.wanted.erase(opening.receipt) > 0;
  kept.refereed.erase(opening.receipt);
  if (!wanted || kept.is_check) ++counts_.selected_total;
  // The referee's own has no run.
  if (kept.run.pipeline != nullptr && kept.run.pipeline->checks) ++counts_.checked_total;
  report_opening(one->first, kept, opening.receipt, asked->second, judged);
  kept.asked.erase(asked);
  if (!kept.asked.empty()) return;
  if (kept.request.wanted.empty() && !kept.dispute) {
    outcomes_.push_back(outcome(one->first, kept, AuditOutcome::Kind::kAgreed));
    return forget(one, "");
  }
  forget(one, "what came in there was computed otherwise already");
}

// --- what is said of it ---

AuditOutcome AuditDesk::outcome(const Key& key, const Kept& kept, AuditOutcome::Kind kind) const {
  AuditOutcome out{kind, key.first, key.second};
  out.windows = kept.agreed;
  return out;
}

void AuditDesk::report_opening(const Key& key, Kept& kept, std::uint64_t entry, const Asked& asked,
                               bool judged) {
  const AuditCase::Finding& finding = asked.finding;
  if (finding.agrees) {
    return kept.agreed.push_back({entry, finding.stage, finding.window, 1});
  }
  if (kept.dispute) return;
  AuditOutcome disputed = outcome(key, kept, AuditOutcome::Kind::kDisputed);
  disputed.entry = entry;
  disputed.stage = finding.stage;
  disputed.window = finding.window;
  disputed.node = kept.request.pipeline().stages[finding.stage].node;
  disputed.awaits_verdict = judged;
  kept.dispute = std::move(disputed);
}

}  // namespace hearth::coordinator

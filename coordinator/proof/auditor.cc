#include "coordinator/proof/auditor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "base/crypto_vrf.h"
#include "base/hex.h"
#include "base/limits.h"
#include "coordinator/proof/pipeline_owners.h"
#include "ledger/selection.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {
namespace {

constexpr const char* kOwnersOnly =
    "every other pipeline with the same layer split has an owner who also has a stage of this one, "
    "or who has two stages";
constexpr Duration kPutOff = std::chrono::seconds(2);  // before a request is tried again
// What is kept without receipts, which come within limits::kReceiptSeconds or not at all.
constexpr Duration kUnlogged = std::chrono::seconds(3 * limits::kReceiptSeconds);
// Seals and openings must reach the log while the window may be audited.
constexpr std::int64_t kMarginSeconds = 120;
static_assert(Auditor::kChecksKept < Auditor::kKeptCases, "checks leave room for audits");

}  // namespace

Auditor::Auditor(SecretKey cluster, const Clock& clock, AuditMode mode, bool follows,
                 std::size_t folded)
    : cluster_(std::move(cluster)),
      clock_(clock),
      mode_(mode),
      follows_(follows),
      folded_(folded),
      books_({}, ledger::EntrySignatures::kTrusted),
      verdicts_(cluster_.public_key(), clock, pipelines_, books_, out_) {
  counts_.mode = mode;
}

// --- the log ---

// Where nothing is audited, too: who was found a fraud before is given no work.
Status Auditor::recall(ByteSpan bytes, const Hash256& leaf) {
  TRY_VOID(books_.apply(bytes, leaf));
  bound_windows();
  TRY(const ledger::Entry entry, ledger::parse_entry(bytes));
  verdicts_.keys().recall(entry);
  if (const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry.body)) {
    pronounced_.push_back(*verdict);
  }
  if (!ledger::receipt_in(bytes).empty()) ++undrawn_;
  if (books_.drawn() + 1 == books_.entries()) undrawn_ = 0;
  return ok_status();
}

Status Auditor::recall(LedgerSnapshot snapshot) {
  TRY(books_, snapshot.books.take());
  undrawn_ = snapshot.undrawn;
  pronounced_ = std::move(snapshot.verdicts);
  for (const ledger::VerdictEntry& one : pronounced_) verdicts_.keys().recall({0, one});
  return ok_status();
}

std::optional<Bytes> Auditor::snapshot() const {
  if (!is_folded_) return std::nullopt;
  return write_snapshot(cluster_, books_, undrawn_, pronounced_);
}

Status Auditor::logged(ByteSpan bytes) {
  if (!follows()) return ok_status();
  const std::uint64_t index = books_.entries();
  const Status applied = books_.apply(bytes);
  if (!applied.ok()) {
    follows_ = false;
    is_folded_ = false;
    mode_ = AuditMode::kOff;
    return applied;
  }
  bound_windows();
  TRY(const ledger::Entry entry, ledger::parse_entry(bytes));
  if (const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry.body)) {
    pronounced_.push_back(*verdict);
  }
  if (mode_ == AuditMode::kOff) return ok_status();
  if (const auto* receipt = std::get_if<ledger::ReceiptEntry>(&entry.body)) {
    on_receipt(index, *receipt);
  } else if (const auto* seal = std::get_if<ledger::SealEntry>(&entry.body)) {
    unlogged_.extract(seal->receipt);
    on_entry(*seal);
  } else if (const auto* opening = std::get_if<ledger::OpeningEntry>(&entry.body)) {
    unlogged_.extract(opening->receipt);
    on_entry(*opening);
  } else if (std::holds_alternative<ledger::DrawEntry>(entry.body)) {
    on_drawn();
  }
  verdicts_.keys().logged(entry);
  return ok_status();
}

// Several at a time, for each look passes over those that are kept.
void Auditor::bound_windows() {
  if (books_.windows() <= folded_) return;
  books_.forget_windows(folded_ - folded_ / 16, [this](std::uint64_t entry) {
    return by_entry_.contains(entry) || unlogged_.contains(entry);
  });
}

std::optional<ledger::DrawEntry> Auditor::draw() {
  if (mode_ == AuditMode::kOff || undrawn_ == 0 || clock_.now() < next_draw_) return std::nullopt;
  next_draw_ = clock_.now() + kDrawPause;
  const Bytes message =
      ledger::draw_message(books_.entries(), books_.root(), cluster_.public_key());
  return ledger::DrawEntry{vrf_prove(cluster_, message)};
}

void Auditor::on_receipt(std::uint64_t entry, const ledger::ReceiptEntry& said) {
  ++undrawn_;
  const auto receipt = ledger::reread_receipt(said.receipt);
  if (!receipt) return;
  const auto found = cases_.find({receipt->slot.request, Epoch(receipt->slot.epoch)});
  if (found == cases_.end()) return;
  found->second.request.add(entry, *receipt);
  found->second.receipts[entry] = said.receipt;
  by_entry_[entry] = found->first;
  const bool all =
      mode_ == AuditMode::kFull || found->second.request.request().policy.verify == Verify::kFull;
  if (all) found->second.request.wanted.insert(entry);
}

void Auditor::on_drawn() {
  undrawn_ = 0;
  std::uint64_t gone = 0;
  if (mode_ == AuditMode::kSpot) {
    for (const std::uint64_t entry : books_.selected()) {
      const auto found = by_entry_.find(entry);
      if (found != by_entry_.end()) {
        cases_.at(found->second).request.wanted.insert(entry);
        continue;
      }
      ++gone;
    }
  }
  counts_.selected_total += gone;
  counts_.missed_total += gone;
  if (gone > 0) spdlog::warn("{} windows are not audited: their tokens are not kept here", gone);
  std::size_t unknown = 0;
  for (const std::uint64_t entry : books_.refereed(own_referee_.rate())) {
    own_referee_.selected(1);
    const auto found = by_entry_.find(entry);
    if (found == by_entry_.end()) {
      ++unknown;
    } else {
      cases_.at(found->second).refereed.insert(entry);
    }
  }
  own_referee_.missed(unknown, "their tokens are not kept here");
  for (auto one = cases_.begin(); one != cases_.end();) {
    const auto next = std::next(one);
    Kept& kept = one->second;
    const bool drawn = kept.state == State::kKept && kept.request.is_logged() &&
                       kept.request.entries().back() < books_.drawn();
    const bool is_unwanted = kept.request.wanted.empty() && kept.refereed.empty();
    if (drawn && is_unwanted && is_for_newcomers(kept)) {
      const std::vector<std::uint64_t> all = kept.request.entries();
      kept.request.wanted.insert(all.begin(), all.end());
      kept.is_check = true;
      kept.enter(State::kWaiting, clock_.now());
    } else if (drawn) {
      counts_.selected_total += kept.request.wanted.size();
      hand_out(one);
    }
    one = next;
  }
  // What a draw has passed over, and what was audited, gets no seal from here any more. The hour
  // that the rules allow for one would cost about 800 bytes a receipt.
  books_.forget_windows(0, [this](std::uint64_t entry) {
    return entry >= books_.drawn() || by_entry_.contains(entry) || unlogged_.contains(entry);
  });
  start_runs();
}

// A request that the referee recomputes whole goes to no other node.
void Auditor::hand_out(Cases::iterator one) {
  Kept& kept = one->second;
  if (!kept.refereed.empty()) {
    if (own_referee_.add(one->first, claimed_case(kept.request))) {
      return kept.enter(State::kRefereed, clock_.now());
    }
    own_referee_.missed(std::exchange(kept.refereed, {}).size(),
                        "too many requests wait for this server's referee");
  }
  if (kept.request.wanted.empty()) return forget(one, "");
  kept.enter(State::kWaiting, clock_.now());
}

// --- requests ---

void Auditor::begin(const ReceiptPipeline& pipeline) {
  pipelines_[pipeline.epoch] = std::make_shared<const ReceiptPipeline>(pipeline);
}

void Auditor::end(Epoch epoch) { pipelines_.erase(epoch); }

void Auditor::over(const ReceiptRequest& request) {
  if (verdicts_.is_run(request.order.request)) return verdicts_.over(request);
  if (const auto run = runs_.find(request.order.request); run != runs_.end()) {
    const Key key = run->second;
    Kept& kept = cases_.at(key);
    if (request.epoch != kept.run.pipeline->epoch) {
      return try_again(key, kept, "its pipeline was lost");
    }
    kept.run.tokens = request.tokens;
    kept.at = clock_.now();
    return settle(key, kept);
  }
  const auto pipeline = pipelines_.find(request.epoch);
  if (mode_ == AuditMode::kOff || pipeline == pipelines_.end()) {
    AuditOutcome none{AuditOutcome::Kind::kUnaudited, request.order.request, request.epoch};
    none.why = mode_ == AuditMode::kOff ? "audits are off on this server (--audit off)"
                                        : "its pipeline was lost";
    if (request.policy.verify == Verify::kFull) out_.outcomes.push_back(std::move(none));
    return;
  }
  const Key key(request.order.request, request.epoch);
  if (cases_.contains(key)) {
    spdlog::error("request {} was already computed in this pipeline: the repetition is not audited",
                  to_hex(key.first));
    return;
  }
  const std::string& owner = request.policy.owner;
  const std::size_t cost =
      std::max(request.tokens.size() * sizeof(TokenId) + request.sampling.grammar.size(),
               kKeptBytes / kKeptCases);
  while (!cases_.empty() && costs_.total() + cost > kKeptBytes) {
    const auto heaviest = std::ranges::find(cases_, costs_.heaviest(), [](const auto& one) {
      return one.second.request.request().policy.owner;
    });
    INVARIANT(heaviest != cases_.end(), "who holds most of what is kept has some of it");
    forget(heaviest, "too many requests wait for their audit");
  }
  Kept kept{AuditCase(pipeline->second, request)};
  kept.cost = cost;
  kept.since = clock_.unix_seconds();
  kept.at = clock_.now();
  costs_.take(owner, cost);
  cases_.emplace(key, std::move(kept));
}

// Whatever it still wants is missed.
void Auditor::forget(Cases::iterator one, const std::string& why) {
  const auto& [key, kept] = *one;
  const std::size_t missed = kept.is_check ? 0 : kept.request.wanted.size();
  if (kept.state == State::kKept) counts_.selected_total += missed;
  if (missed > 0 && !why.empty()) {
    counts_.missed_total += missed;
    spdlog::warn("request {}: {} of its windows are not audited: {}", to_hex(key.first), missed,
                 why);
  }
  own_referee_.missed(kept.refereed.size(), why);
  if (kept.state == State::kRefereed) own_referee_.drop(key);
  const bool asked = kept.request.request().policy.verify == Verify::kFull;
  if (!why.empty() && (missed > 0 || asked) && !kept.dispute) {
    out_.outcomes.push_back(kept.outcome(AuditOutcome::Kind::kUnaudited));
    out_.outcomes.back().why = why;
  }
  if (kept.dispute) {
    out_.outcomes.push_back(*kept.dispute);
    out_.outcomes.back().windows = kept.agreed;
  }
  costs_.give_back(kept.request.request().policy.owner, kept.cost);
  runs_.erase(kept.run.name);
  for (const std::uint64_t entry : kept.request.entries()) by_entry_.erase(entry);
  cases_.erase(one);
}

// --- runs ---

void Auditor::start_runs() {
  const bool checks =
      std::ranges::any_of(pipelines_, [](const auto& p) { return p.second->checks; });
  const auto running = [this](bool for_checks) {
    return static_cast<std::size_t>(std::ranges::count_if(runs_, [&](const auto& one) {
      return cases_.at(one.second).run.pipeline->checks == for_checks;
    }));
  };
  std::size_t runs = kRunsAtOnce - std::min(kRunsAtOnce, running(false));
  std::size_t more = checks ? kChecksAtOnce - std::min(kChecksAtOnce, running(true)) : 0;
  for (auto& [key, kept] : cases_) {
    if (runs + more == 0) return;
    if (kept.state != State::kWaiting || clock_.now() < kept.at) continue;
    auto [on, owners_only] =
        choose_auditor(books_, pipelines_, kept.request, kept.tried, kept.is_check);
    kept.has_owners_only = owners_only;
    if (!on) continue;
    std::size_t& left = on->checks ? more : runs;
    if (left == 0) continue;
    --left;
    run(key, kept, std::move(on), false);
  }
}

// What its owner shares, or is the coordinator's own, and newcomers are there for: without a draw.
bool Auditor::is_for_newcomers(const Kept& kept) const {
  if (!kept.request.request().policy.share) return false;
  const bool any = std::ranges::any_of(pipelines_, [&](const auto& one) {
    return one.second->checks && same_cut(*one.second, kept.request.pipeline());
  });
  const auto checks =
      std::ranges::count_if(cases_, [](const auto& one) { return one.second.is_check; });
  return any && static_cast<std::size_t>(checks) < kChecksKept;
}

void Auditor::run(const Key& key, Kept& kept, std::shared_ptr<const ReceiptPipeline> on,
                  bool feed) {
  auto [begun, order] = kept.request.order(std::move(on), feed, clock_.unix_seconds());
  kept.run = std::move(begun);
  runs_[kept.run.name] = key;
  kept.enter(State::kRunning, clock_.now());
  out_.runs.push_back(std::move(order));
}

void Auditor::put_off(const ledger::RequestId& name, const std::string& why) {
  const auto found = runs_.find(name);
  if (found == runs_.end()) return verdicts_.give_up(name);
  Kept& kept = cases_.at(found->second);
  runs_.erase(found);
  kept.generated.reset();  // both runs are one pipeline's
  kept.enter(State::kWaiting, clock_.now());
  kept.at += kPutOff;
  counts_.why_waiting = why;
}

void Auditor::give_up(const ledger::RequestId& name, const std::string& why) {
  const auto found = runs_.find(name);
  if (found == runs_.end()) return verdicts_.give_up(name);
  const Key key = found->second;
  try_again(key, cases_.at(key), why);
}

// On another pipeline, a few times.
void Auditor::try_again(const Key& key, Kept& kept, const std::string& why) {
  spdlog::warn("the audit of request {} starts again: {}", to_hex(key.first), why);
  if (++kept.tries >= kTries) return forget(cases_.find(key), why);
  runs_.erase(kept.run.name);
  kept.tried.insert(kept.run.pipeline->epoch);
  kept.generated.reset();
  kept.enter(State::kWaiting, clock_.now());
}

void Auditor::take(const std::string& node, const control::v1::WindowClaims& claims) {
  for (const control::v1::WindowClaim& claim : claims.windows()) {
    const Status taken = take_claim(node, claim);
    if (taken.ok()) continue;
    spdlog::error("node {} sent an impossible claim: {}", node, taken.error().message);
    if (taken.error().code == ErrorCode::kRefused) refuse(node, claim);
  }
}

// It signed a root that it has not computed but copied, so its audits are worthless.
void Auditor::refuse(const std::string& node, const control::v1::WindowClaim& claim) {
  const auto pipeline = pipelines_.find(Epoch(claim.epoch()));
  if (pipeline != pipelines_.end()) {
    const auto& stages = pipeline->second->stages;
    const auto stage = std::ranges::find(stages, node, &ReceiptPipeline::Stage::node);
    if (stage != stages.end()) verdicts_.keys().bar_copier(node, stage->key);
  }
  ledger::RequestId name{};
  if (!read_field(claim.request(), name)) return;
  const auto run = runs_.find(name);
  if (run == runs_.end()) return;
  const Key key = run->second;
  try_again(key, cases_.at(key), "node " + node + " claims a root that it has not computed");
}

Status Auditor::take_claim(const std::string& node, const control::v1::WindowClaim& claim) {
  ledger::RequestId name{};
  if (!read_field(claim.request(), name)) return ok_status();  // told by the receipts' desk
  if (verdicts_.is_run(name)) return verdicts_.take_claim(node, name, claim);
  const auto found = runs_.find(name);
  if (found == runs_.end()) return ok_status();
  const Key key = found->second;
  Kept& kept = cases_.at(key);
  TRY_VOID(kept.request.take(kept.run, node, claim, cluster_.public_key()));
  settle(key, kept);
  return ok_status();
}

// --- what is to be done ---

Auditor::Output Auditor::take_output() {
  return {std::exchange(out_.runs, {}),
          std::exchange(out_.messages, {}),
          std::exchange(out_.outcomes, {}),
          {}};
}

// --- time ---

void Auditor::on_timer() {
  verdicts_.on_timer();
  std::erase_if(unlogged_,
                [this](std::uint64_t entry) { return books_.receipt(entry) == nullptr; });
  const std::int64_t unix = clock_.unix_seconds();
  const std::int64_t most = books_.policy().audit_seconds - kMarginSeconds;
  for (auto one = cases_.begin(); one != cases_.end();) {
    const auto next = std::next(one);
    auto& [key, kept] = *one;
    const std::int64_t age = unix - kept.since;
    const bool late = clock_.now() - kept.at >= kPatience;
    const bool waits_for_claims = kept.state == State::kRunning && kept.run.tokens;
    if (age >= most) {
      forget(one,
             kept.has_owners_only ? kOwnersOnly : "no other node recomputed these layers in time");
    } else if (kept.state == State::kKept && !kept.request.is_logged() &&
               clock_.now() - kept.at >= kUnlogged) {
      forget(one, "not all of its stages gave receipts");
    } else if (late && waits_for_claims) {
      try_again(key, kept, "its stages did not claim all of its windows");
    } else if (late && (kept.state == State::kSealing || kept.state == State::kOpening)) {
      forget(one, "an auditor did not seal or open its claim");
    }
    one = next;
  }
  start_runs();
}

AuditStatus Auditor::status() const {
  AuditStatus status = counts_;
  status.mode = mode_;
  for (const auto& [key, kept] : cases_) {
    const bool waits = kept.state == State::kWaiting && !kept.is_check;
    if (waits) status.waiting += kept.request.wanted.size();
    if (waits && kept.has_owners_only && status.why_waiting.empty()) {
      status.why_waiting = kOwnersOnly;
    }
    if (kept.state > State::kWaiting) ++status.running;
  }
  status.referee_selected_total = own_referee_.counts().selected;
  status.referee_missed_total = own_referee_.counts().missed;
  status.why_referee_missed = own_referee_.counts().why_missed;
  status.referee_waiting = static_cast<std::uint32_t>(own_referee_.waiting());
  status.open_disputes = books_.disputes().size();
  status.unjudged_disputes = books_.audits().unjudged;
  status.ended_disputes = pronounced_.size() - status.unjudged_disputes;
  if (status.waiting == 0) {
    status.why_waiting.clear();
  } else if (status.why_waiting.empty()) {
    status.why_waiting = "no other pipeline with the same layer split serves";
  }
  return status;
}

}  // namespace hearth::coordinator

#include "coordinator/audit_desk.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ranges>

#include "base/crypto_vrf.h"
#include "base/hex.h"
#include "base/limits.h"
#include "ledger/selection.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {
namespace {

constexpr Duration kPutOff = std::chrono::seconds(2);  // before a request is tried again
// What is kept without receipts, which come within limits::kReceiptSeconds or not at all.
constexpr std::int64_t kUnloggedSeconds = 3 * limits::kReceiptSeconds;
// Seals and openings must reach the log while the window may be audited.
constexpr std::int64_t kMarginSeconds = 120;

// Each node answers for itself (coordinator/receipt_desk.cc).
Hash256 owner_of(const PublicKey& key) { return blake2b(key.bytes()); }

bool same_cut(const ReceiptPipeline& a, const ReceiptPipeline& b) {
  return a.program == b.program &&
         std::ranges::equal(a.stages, b.stages, {}, &ReceiptPipeline::Stage::layers,
                            &ReceiptPipeline::Stage::layers);
}

bool share_a_node(const ReceiptPipeline& a, const ReceiptPipeline& b) {
  return std::ranges::any_of(a.stages, [&b](const ReceiptPipeline::Stage& one) {
    return std::ranges::find(b.stages, one.key, &ReceiptPipeline::Stage::key) != b.stages.end();
  });
}

bool is_within(const ReceiptPipeline& pipeline, const std::vector<std::string>& trust) {
  return trust.empty() ||
         std::ranges::all_of(pipeline.stages, [&trust](const ReceiptPipeline::Stage& one) {
           return std::ranges::count(trust, one.node) > 0;
         });
}

}  // namespace

AuditDesk::AuditDesk(SecretKey cluster, const Clock& clock, AuditMode mode)
    : cluster_(std::move(cluster)),
      clock_(clock),
      mode_(mode),
      books_({}, ledger::EntrySignatures::kTrusted),
      verdicts_(cluster_.public_key(), clock, pipelines_, books_) {
  counts_.mode = mode;
}

// --- the log ---

// Where nothing is audited, too: who was found a fraud before is given no work.
Status AuditDesk::recall(ByteSpan bytes) {
  TRY_VOID(books_.apply(bytes));
  TRY(const ledger::Entry entry, ledger::parse_entry(bytes));
  verdicts_.recall(entry);
  if (!ledger::receipt_in(bytes).empty()) ++undrawn_;
  if (books_.drawn() + 1 == books_.entries()) undrawn_ = 0;
  return ok_status();
}

Status AuditDesk::logged(ByteSpan bytes) {
  if (mode_ == AuditMode::kOff) return ok_status();
  const std::uint64_t index = books_.entries();
  Status applied = books_.apply(bytes);
  if (applied.ok() && books_.windows() > kFoldedWindows) {
    applied = Error{ErrorCode::kNoCapacity,
                    "more than " + std::to_string(kFoldedWindows) +
                        " windows are young enough to be audited; begin anew with --audit off"};
  }
  if (!applied.ok()) {
    mode_ = AuditMode::kOff;
    return applied;
  }
  TRY(const ledger::Entry entry, ledger::parse_entry(bytes));
  if (const auto* receipt = std::get_if<ledger::ReceiptEntry>(&entry.body)) {
    on_receipt(index, *receipt);
  } else if (const auto* seal = std::get_if<ledger::SealEntry>(&entry.body)) {
    on_seal(*seal);
  } else if (const auto* opening = std::get_if<ledger::OpeningEntry>(&entry.body)) {
    on_opening(*opening);
  } else if (std::holds_alternative<ledger::DrawEntry>(entry.body)) {
    on_drawn();
  }
  verdicts_.logged(entry);
  return ok_status();
}

std::optional<ledger::DrawEntry> AuditDesk::draw() {
  if (mode_ == AuditMode::kOff || undrawn_ == 0 || clock_.now() < next_draw_) return std::nullopt;
  next_draw_ = clock_.now() + kDrawPause;
  const Bytes message =
      ledger::draw_message(books_.entries(), books_.root(), cluster_.public_key());
  return ledger::DrawEntry{vrf_prove(cluster_, message)};
}

void AuditDesk::on_receipt(std::uint64_t entry, const ledger::ReceiptEntry& said) {
  ++undrawn_;
  const auto receipt = ledger::reread_receipt(said.receipt);
  if (!receipt) return;
  const auto found = cases_.find({receipt->slot.request, Epoch(receipt->slot.epoch)});
  if (found == cases_.end()) return;
  found->second.request.add(entry, *receipt);
  found->second.receipts[entry] = said.receipt;
  by_entry_[entry] = found->first;
  const bool all =
      mode_ == AuditMode::kFull || found->second.request.request().verify == Verify::kFull;
  if (all) found->second.request.wanted.insert(entry);
}

void AuditDesk::on_drawn() {
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
  for (auto one = cases_.begin(); one != cases_.end();) {
    const auto next = std::next(one);
    Kept& kept = one->second;
    const bool drawn = kept.state == State::kKept && kept.request.is_logged() &&
                       kept.request.entries().back() < books_.drawn();
    if (drawn && kept.request.wanted.empty()) {
      forget(one, "");
    } else if (drawn) {
      counts_.selected_total += kept.request.wanted.size();
      enter(kept, State::kWaiting);
    }
    one = next;
  }
  start_runs();
}

void AuditDesk::enter(Kept& kept, State state) {
  kept.state = state;
  kept.at = clock_.now();
}

// --- requests ---

void AuditDesk::begin(const ReceiptPipeline& pipeline) {
  pipelines_[pipeline.epoch] = std::make_shared<const ReceiptPipeline>(pipeline);
}

void AuditDesk::end(Epoch epoch) { pipelines_.erase(epoch); }

void AuditDesk::over(const ReceiptRequest& request) {
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
    none.why = mode_ == AuditMode::kOff ? "nothing is audited here" : "its pipeline was lost";
    if (request.verify == Verify::kFull) outcomes_.push_back(std::move(none));
    return;
  }
  const std::size_t bytes = request.tokens.size() * sizeof(TokenId);
  while (!cases_.empty() && (bytes_ + bytes > kKeptBytes || cases_.size() >= kKeptCases)) {
    forget(cases_.begin(), "too many requests wait for their audit");
  }
  Kept kept{AuditCase(pipeline->second, request)};
  kept.bytes = bytes;
  kept.since = clock_.unix_seconds();
  if (cases_.emplace(Key(request.order.request, request.epoch), std::move(kept)).second) {
    bytes_ += bytes;
  }
}

// Whatever it still wants is missed.
void AuditDesk::forget(Cases::iterator one, const std::string& why) {
  const auto& [key, kept] = *one;
  const std::size_t missed = kept.request.wanted.size();
  if (kept.state == State::kKept) counts_.selected_total += missed;
  if (missed > 0 && !why.empty()) {
    counts_.missed_total += missed;
    spdlog::warn("request {}: {} of its windows are not audited: {}", to_hex(key.first), missed,
                 why);
  }
  const bool asked = kept.request.request().verify == Verify::kFull;
  if (!why.empty() && (missed > 0 || asked) && !kept.dispute) {
    outcomes_.push_back(outcome(key, kept, AuditOutcome::Kind::kUnaudited));
    outcomes_.back().why = why;
  }
  if (kept.dispute) {
    outcomes_.push_back(*kept.dispute);
    outcomes_.back().windows = kept.agreed;
  }
  bytes_ -= kept.bytes;
  runs_.erase(kept.run.name);
  for (const std::uint64_t entry : kept.request.entries()) by_entry_.erase(entry);
  cases_.erase(one);
}

// --- runs ---

void AuditDesk::start_runs() {
  for (auto& [key, kept] : cases_) {
    if (runs_.size() >= kRunsAtOnce) return;
    if (kept.state != State::kWaiting || clock_.now() < kept.at) continue;
    if (auto on = choose(kept)) run(key, kept, std::move(on), false);
  }
}

// Of the pipelines that can, the one whose node the draw names for the first window.
std::shared_ptr<const ReceiptPipeline> AuditDesk::choose(const Kept& kept) const {
  const ReceiptPipeline& own = kept.request.pipeline();
  std::vector<std::shared_ptr<const ReceiptPipeline>> fit;
  std::vector<ledger::Draw::Candidate> candidates;
  for (const auto& [epoch, one] : pipelines_) {
    if (!same_cut(*one, own) || share_a_node(*one, own) || kept.tried.contains(epoch)) continue;
    if (!is_within(*one, kept.request.request().trust)) continue;
    if (!is_at_level(*one, kept.request.request().min_level)) continue;
    fit.push_back(one);
    candidates.push_back({one->stages.front().key, owner_of(one->stages.front().key)});
  }
  if (fit.empty() || !books_.draw()) return nullptr;
  const auto named = books_.draw()->auditor(*kept.request.wanted.begin(), candidates, {});
  const auto place = std::ranges::find(candidates, *named, &ledger::Draw::Candidate::key);
  return fit[static_cast<std::size_t>(place - candidates.begin())];
}

void AuditDesk::run(const Key& key, Kept& kept, std::shared_ptr<const ReceiptPipeline> on,
                    bool feed) {
  Hash256 own;
  random_bytes(own.bytes);
  const ledger::RequestId name =
      ledger::request_of(ledger::answer_name(clock_.unix_seconds(), own.bytes), 0);
  AuditRun order = feed ? kept.request.feed(name) : kept.request.generate(name);
  for (const ReceiptPipeline::Stage& stage : on->stages) order.nodes.push_back(stage.node);
  kept.run = {name, std::move(on), feed, {}, {}};
  runs_[name] = key;
  enter(kept, State::kRunning);
  to_run_.push_back(std::move(order));
}

void AuditDesk::put_off(const ledger::RequestId& name, const std::string& why) {
  const auto found = runs_.find(name);
  if (found == runs_.end()) return verdicts_.give_up(name, why);
  Kept& kept = cases_.at(found->second);
  runs_.erase(found);
  kept.generated.reset();  // both runs are one pipeline's
  enter(kept, State::kWaiting);
  kept.at += kPutOff;
  counts_.why_waiting = why;
}

void AuditDesk::give_up(const ledger::RequestId& name, const std::string& why) {
  const auto found = runs_.find(name);
  if (found == runs_.end()) return verdicts_.give_up(name, why);
  const Key key = found->second;
  try_again(key, cases_.at(key), why);
}

// On another pipeline, a few times.
void AuditDesk::try_again(const Key& key, Kept& kept, const std::string& why) {
  spdlog::warn("the audit of request {} begins anew: {}", to_hex(key.first), why);
  if (++kept.tries >= kTries) return forget(cases_.find(key), why);
  runs_.erase(kept.run.name);
  kept.tried.insert(kept.run.pipeline->epoch);
  kept.generated.reset();
  enter(kept, State::kWaiting);
}

void AuditDesk::take(const std::string& node, const control::v1::WindowClaims& claims) {
  for (const control::v1::WindowClaim& claim : claims.windows()) {
    const Status taken = take_claim(node, claim);
    if (!taken.ok())
      spdlog::error("node {} claims what cannot be: {}", node, taken.error().message);
  }
}

Status AuditDesk::take_claim(const std::string& node, const control::v1::WindowClaim& claim) {
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

// --- seals ---

void AuditDesk::settle(const Key& key, Kept& kept) {
  if (kept.state != State::kRunning || !kept.run.is_whole()) return;
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
  if (!findings->beyond.empty()) {
    spdlog::error("request {}: {}, which is in no receipt: stage {} of pipeline {} or of {} lies",
                  to_hex(key.first), findings->beyond, kept.request.pipeline().stages.size() - 1,
                  key.second.value, kept.run.pipeline->epoch.value);
    ++counts_.disputed_total;
  }
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
  if (!std::ranges::all_of(kept.asked, [](const auto& one) { return one.second.is_sealed; })) {
    return;
  }
  std::map<std::string, control::v1::OpenOrder> orders;
  for (const auto& [entry, one] : kept.asked) orders[one.node].add_entries(entry);
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
        "in dispute: entry {}, request {}, window {}, stage {} (layers {} to {}): node {} and its "
        "auditor {} had the same input and come to different output",
        opening.receipt, to_hex(one->first.first), finding.window, finding.stage,
        own.stages[finding.stage].layers.begin, own.stages[finding.stage].layers.end,
        own.stages[finding.stage].node, asked->second.node);
    judged = verdicts_.begin({kept.request, finding, kept.generated ? *kept.generated : kept.run,
                              kept.generated ? std::optional(kept.run) : std::nullopt,
                              asked->second.node, asked->second.key, kept.receipts,
                              *asked->second.seal, opening.salt});
  }
  // From here on nothing is said of it but in the log; the last one ends it.
  const bool wanted = kept.request.wanted.erase(opening.receipt) > 0;
  if (!wanted) ++counts_.selected_total;
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

// Whom the log does not name yet begins where those begin that the cluster vouches for.
bool AuditDesk::is_at_level(const ReceiptPipeline& pipeline, ledger::Level least) const {
  return std::ranges::all_of(pipeline.stages, [&](const ReceiptPipeline::Stage& one) {
    const ledger::Standing* standing = books_.standing(one.key);
    if (standing == nullptr) return least <= ledger::Level::kProbation;
    return !standing->is_tombstoned() && standing->level(books_.policy(), books_.time()) >= least;
  });
}

Standings AuditDesk::standings() const {
  Standings all;
  const ledger::Policy& policy = books_.policy();
  for (const PublicKey& key : books_.keys()) {
    const ledger::Standing& one = *books_.standing(key);
    all[key] = {one.level(policy, books_.time()), one.audited_right(),
                one.faults(policy, books_.time()), one.is_tombstoned()};
  }
  return all;
}

// --- what is to be done ---

std::vector<AuditRun> AuditDesk::take_runs() {
  for (AuditRun& run : verdicts_.take_runs()) to_run_.push_back(std::move(run));
  return std::exchange(to_run_, {});
}

std::vector<AuditDesk::Message> AuditDesk::take_messages() {
  for (Message& message : verdicts_.take_messages()) messages_.push_back(std::move(message));
  return std::exchange(messages_, {});
}

std::vector<AuditDesk::ForLog> AuditDesk::take_entries() {
  for (VerdictDesk::Judgement& one : verdicts_.take_verdicts()) {
    entries_.push_back(
        {one.verdict.guilty, one.verdict, std::move(one.evidence), std::move(one.dispute)});
  }
  return std::exchange(entries_, {});
}

std::vector<AuditOutcome> AuditDesk::take_outcomes() {
  for (AuditOutcome& one : verdicts_.take_outcomes()) outcomes_.push_back(std::move(one));
  return std::exchange(outcomes_, {});
}

// --- time ---

void AuditDesk::on_timer() {
  verdicts_.on_timer();
  const std::int64_t unix = clock_.unix_seconds();
  const std::int64_t most = books_.policy().audit_seconds - kMarginSeconds;
  for (auto one = cases_.begin(); one != cases_.end();) {
    const auto next = std::next(one);
    auto& [key, kept] = *one;
    const std::int64_t age = unix - kept.since;
    const bool late = clock_.now() - kept.at >= kPatience;
    const bool waits_for_claims = kept.state == State::kRunning && kept.run.tokens;
    if (age >= most) {
      forget(one, "nobody else computed these layers again in time");
    } else if (kept.state == State::kKept && !kept.request.is_logged() && age >= kUnloggedSeconds) {
      forget(one, "it has no receipts of all its stages");
    } else if (late && waits_for_claims) {
      try_again(key, kept, "its stages did not claim all of it");
    } else if (late && (kept.state == State::kSealing || kept.state == State::kOpening)) {
      forget(one, "an auditor did not say what it had claimed");
    }
    one = next;
  }
  start_runs();
}

AuditStatus AuditDesk::status() const {
  AuditStatus status = counts_;
  status.mode = mode_;
  for (const auto& [key, kept] : cases_) {
    if (kept.state == State::kWaiting) status.waiting += kept.request.wanted.size();
    if (kept.state > State::kWaiting) ++status.running;
  }
  if (status.waiting == 0) {
    status.why_waiting.clear();
  } else if (status.why_waiting.empty()) {
    status.why_waiting = "no other pipeline with the same cut serves";
  }
  return status;
}

}  // namespace hearth::coordinator

#include "coordinator/proof/dispute_resolver.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/check.h"
#include "ledger/dispute/evidence.h"
#include "ledger/receipt.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {
namespace {

ledger::RefereeCase up_to(ledger::RefereeCase request, std::uint32_t positions) {
  const std::size_t prompt = std::min<std::size_t>(request.prompt.size(), positions);
  request.prompt.resize(prompt);
  request.answer.resize(std::min(request.answer.size(), positions - prompt));
  request.positions = static_cast<std::uint32_t>(prompt + request.answer.size());
  return request;
}

}  // namespace

// --- the referee ---

bool DisputeResolver::begin(Dispute dispute) {
  const std::uint64_t entry = dispute.finding.entry;
  if (cases_.size() >= kDisputes) {
    spdlog::error("the dispute over entry {} stays open: {} others wait for their verdict", entry,
                  cases_.size());
    return false;
  }
  Case one(std::move(dispute));
  one.at = clock_.now();
  cases_.emplace(entry, std::move(one));
  ask_next();
  return true;
}

void DisputeResolver::ask_next() {
  if (before_referee_) return;
  for (auto& [entry, one] : cases_) {
    if (one.state != State::kQueued) continue;
    one.state = State::kRefereed;
    return ask(entry, claimed_case(one.dispute.request));
  }
}

void DisputeResolver::ask(std::uint64_t entry, ledger::RefereeCase request) {
  before_referee_ = entry;
  asks_.push_back({entry, std::move(request)});
}

void DisputeResolver::found(std::uint64_t entry, const Result<ledger::RefereeFinding>& finding) {
  if (before_referee_ != entry) return;
  before_referee_.reset();
  const auto at = cases_.find(entry);
  if (at != cases_.end()) {
    Case& one = at->second;
    INVARIANT(one.state == State::kRefereed, "the case before the referee waits for it");
    const Dispute& dispute = one.dispute;
    if (!finding) {
      leave_open(at, "no referee: " + finding.error().message);
    } else {
      const bool is_audited = std::exchange(one.audited_asked, false);
      one.rests_on_audited = is_audited;
      if (!is_audited) one.claimed = *finding;
      const auto ruling = rule(dispute, *one.claimed, is_audited ? &*finding : nullptr);
      if (!ruling) {
        leave_open(at, ruling.error().message);
      } else {
        one.ruling = *ruling;
        ruled(entry, one);
      }
    }
  }
  ask_next();
}

Result<ledger::Ruling> DisputeResolver::rule(const Dispute& dispute,
                                             const ledger::RefereeFinding& claimed,
                                             const ledger::RefereeFinding* audited) {
  TRY(const ledger::DisputedRoots roots,
      disputed_roots(dispute.request, dispute.finding, dispute.generated,
                     dispute.fed ? &*dispute.fed : nullptr));
  return ledger::rule(roots, claimed_case(dispute.request), claimed, audited);
}

void DisputeResolver::ruled(std::uint64_t entry, Case& one) {
  const Dispute& dispute = one.dispute;
  if (one.ruling.wants_audited) {
    one.audited_asked = true;
    return ask(entry, audited_case(dispute.request, dispute.generated));
  }
  // Then the error may be this machine's.
  if (one.ruling.is_alone && !std::exchange(one.asked_twice, true)) {
    return ask(entry, claimed_case(dispute.request));
  }
  if (one.ruling.who == ledger::Ruling::False::kNobody) {
    return leave_open(cases_.find(entry), one.ruling.why);
  }
  const bool is_worker = one.ruling.who == ledger::Ruling::False::kWorker;
  const ReceiptPipeline::Stage& worker = dispute.request.pipeline().stages[dispute.finding.stage];
  one.node = is_worker ? worker.node : dispute.auditor;
  one.accused = is_worker ? worker.key : dispute.auditor_key;
  one.root = dispute.finding.root;
  if (is_worker) {
    one.root =
        dispute.request.windows().at(dispute.finding.window)[dispute.finding.stage]->out_root;
  }
  spdlog::error("entry {}: the referee's result differs from that of node {}, which {} it", entry,
                one.node, is_worker ? "served" : "audited");
  report(one);
  if (one.accused == cluster_) {  // the referee himself, who computed it twice to two results
    one.judged.plea = ledger::Plea::kConceded;
    return judge(cases_.find(entry));
  }
  run_again(entry, one);
}

// For the client that asked for the request to be verified.
void DisputeResolver::report(const Case& one) {
  const AuditCase& request = one.dispute.request;
  AuditOutcome outcome = request.disputed(one.dispute.finding);
  if (one.ruling.who == ledger::Ruling::False::kWorker) {
    outcome.kind = AuditOutcome::Kind::kFalse;
    outcome.answer = one.claimed->tokens;
    outcome.is_cut = one.claimed->is_cut;
  } else if (is_right(request, *one.claimed)) {
    outcome.kind = AuditOutcome::Kind::kAgreed;
    for (const auto& [window, stages] : request.windows()) {
      for (std::uint32_t i = 0; i < stages.size(); ++i) {
        outcome.windows.push_back({stages[i]->entry, i, window, 1});
      }
    }
  } else {
    outcome.kind = AuditOutcome::Kind::kUnaudited;
    outcome.why = "its auditor's result is false, and no dispute covers the other differences";
  }
  out_.outcomes.push_back(std::move(outcome));
}

void DisputeResolver::leave_open(Cases::iterator at, const std::string& why) {
  spdlog::error("the dispute over entry {} stays open: {}", at->first, why);
  const Dispute& dispute = at->second.dispute;
  out_.outcomes.push_back(dispute.request.disputed(dispute.finding));
  runs_.erase(at->second.again.name);
  cases_.erase(at);
}

// --- once more, by the accused ---

void DisputeResolver::run_again(std::uint64_t entry, Case& one) {
  const Dispute& dispute = one.dispute;
  const bool is_worker = one.ruling.who == ledger::Ruling::False::kWorker;
  const Epoch epoch =
      is_worker ? dispute.request.pipeline().epoch : dispute.generated.pipeline->epoch;
  const auto pipeline = pipelines_.find(epoch);
  if (pipeline == pipelines_.end()) return accuse(entry, one);  // it does not stand any more
  const bool is_last =
      dispute.finding.stage + std::size_t{1} == dispute.request.pipeline().stages.size();
  auto [run, order] = dispute.request.order(pipeline->second, !is_last, clock_.unix_seconds());
  // A kept page would repeat an error that happened once, and make fraud of a fault.
  order.cache = CacheScope::kOff;
  one.again = std::move(run);
  INVARIANT(one.state == State::kRefereed, "a window is computed again when the referee has ruled");
  one.state = State::kAgain;
  one.at = clock_.now();
  runs_[one.again.name] = entry;
  out_.runs.push_back(std::move(order));
}

void DisputeResolver::over(const ReceiptRequest& request) {
  const auto run = runs_.find(request.order.request);
  if (run == runs_.end()) return;
  Case& one = cases_.at(run->second);
  if (request.epoch != one.again.pipeline->epoch) {
    return give_up(request.order.request);  // its pipeline was lost
  }
  one.again.tokens = request.tokens;
  if (one.again.is_whole()) ran_again(one);
}

Status DisputeResolver::take_claim(const std::string& node, const ledger::RequestId& run,
                                   const control::v1::WindowClaim& claim) {
  Case& one = cases_.at(runs_.at(run));
  TRY_VOID(one.dispute.request.take(one.again, node, claim, cluster_));
  if (one.again.is_whole()) ran_again(one);
  return ok_status();
}

void DisputeResolver::give_up(const ledger::RequestId& name) {
  const auto run = runs_.find(name);
  if (run == runs_.end()) return;
  const std::uint64_t entry = run->second;
  runs_.erase(run);
  accuse(entry, cases_.at(entry));
}

// What came in must be what came in before: else it says nothing.
void DisputeResolver::ran_again(Case& one) {
  const AuditCase::Finding& finding = one.dispute.finding;
  const AuditCase& request = one.dispute.request;
  const bool is_worker = one.ruling.who == ledger::Ruling::False::kWorker;
  const auto window = one.again.windows.find(finding.window);
  const bool is_last = finding.stage + std::size_t{1} == request.pipeline().stages.size();
  if (is_last && is_worker) {
    one.judged.same_again = request.same_tokens(one.again);
  } else if (window != one.again.windows.end()) {
    const Hash256& in = finding.stage == 0
                            ? window->second[0]->in_root
                            : one.claimed->windows.at(finding.window)[finding.stage - 1];
    one.judged.same_again =
        window->second[finding.stage]->out_root == one.root &&
        (is_last || finding.stage == 0 || window->second[finding.stage]->in_root == in);
  }
  one.was_run_again = true;
  runs_.erase(one.again.name);
  accuse(finding.entry, one);
}

// --- the accused ---

void DisputeResolver::accuse(std::uint64_t entry, Case& one) {
  INVARIANT(one.state == State::kRefereed || one.state == State::kAgain,
            "a node is accused once, when it is known whether the deviation comes again");
  INVARIANT(one.accused != cluster_, "the referee does not accuse itself");
  one.state = State::kAccused;
  one.at = clock_.now();
  send_accusation(entry, one);
}

// Who is lost hears of it when it is back.
void DisputeResolver::send_accusation(std::uint64_t entry, Case& one) {
  const std::string node = keys_.node_of(one.accused);
  if (node.empty()) return;
  ++one.times;
  one.node = node;
  one.at = clock_.now();
  NodeMessage& message = out_.messages.emplace_back();
  message.node = node;
  control::v1::Accusation& body = *message.body.mutable_accusation();
  body.set_entry(entry);
  if (one.ruling.who == ledger::Ruling::False::kWorker)
    body.set_receipt(to_field(one.dispute.receipt()));
  body.set_root(to_field(one.root.bytes));
  body.set_found(to_field(one.ruling.truth.bytes));
}

void DisputeResolver::on_answer(const std::string& node, const control::v1::Answer& answer) {
  const auto at = cases_.find(answer.entry());
  const PublicKey* key = keys_.key_of(node);
  if (at == cases_.end() || key == nullptr) return;  // late
  Case& one = at->second;
  if (one.state != State::kAccused || one.accused != *key) return;
  ledger::Answer said{answer.entry(),
                      *key,
                      ledger::Plea::kNone,
                      answer.found().weights_whole(),
                      answer.found().self_test_passed(),
                      {}};
  const bool known = answer.plea() == static_cast<std::uint32_t>(ledger::Plea::kConceded) ||
                     answer.plea() == static_cast<std::uint32_t>(ledger::Plea::kContested);
  if (known) said.plea = static_cast<ledger::Plea>(answer.plea());
  if (!known || !read_field(answer.signature(), said.signature) ||
      !ledger::check_answer(said, cluster_)) {
    spdlog::error("node {}: its answer about entry {} has an unknown plea or a wrong signature",
                  node, answer.entry());
    return;
  }
  one.answer = said;
  one.judged.plea = said.plea;
  one.judged.weights_whole = said.weights_whole;
  one.judged.self_test_passed = said.self_test_passed;
  one.damage = line_of(answer.found().what());
  judge(at);
}

void DisputeResolver::judge(Cases::iterator at) {
  const auto& [entry, one] = *at;
  INVARIANT(one.state == State::kAccused || one.accused == cluster_,
            "a verdict comes after the accusation");
  const ledger::Verdict verdict = ledger::verdict_of(one.judged);
  const std::string plea = one.judged.plea == ledger::Plea::kConceded    ? "it concedes"
                           : one.judged.plea == ledger::Plea::kContested ? "it contests"
                                                                         : "it does not answer";
  const std::string again = !one.was_run_again      ? "its pipeline ended before the recomputation"
                            : one.judged.same_again ? "its recomputation gave the same result"
                                                    : "its recomputation gave another result";
  spdlog::error("entry {}: {} of node {}: {}; its weights {}, its kernels {}; {}", entry,
                ledger::verdict_name(verdict), one.node, plea,
                one.judged.weights_whole ? "are whole" : "are damaged",
                one.judged.self_test_passed ? "pass their test" : "fail their test", again);
  Bytes evidence = evidence_of(entry, one, verdict);
  const Hash256 hash = blake2b(evidence);
  pronounce({entry, one.accused, verdict, hash}, std::move(evidence));
  cases_.erase(at);
}

void DisputeResolver::pronounce(const ledger::VerdictEntry& verdict, Bytes evidence) {
  keys_.pronounced(verdict);
  out_.entries.push_back({verdict.guilty, verdict, std::move(evidence)});
}

void DisputeResolver::take_up(const std::vector<Bytes>& kept) {
  const std::vector<std::uint64_t> disputes = books_.disputes();
  std::set<std::uint64_t> open(disputes.begin(), disputes.end());
  for (const Bytes& evidence : kept) {
    const auto verdict = ledger::verdict_in(evidence, books_);
    if (!verdict || open.erase(verdict->receipt) == 0) continue;
    spdlog::warn("entry {}: {} of {}, by the evidence that an earlier process stored",
                 verdict->receipt, ledger::verdict_name(verdict->verdict), verdict->guilty.hex());
    pronounce(*verdict, evidence);
  }
  for (const std::uint64_t entry : open) {
    spdlog::warn("the dispute over entry {} ends unjudged: only an earlier process had its request",
                 entry);
    Bytes evidence = ledger::unjudged_evidence(entry, books_);
    const Hash256 hash = blake2b(evidence);
    pronounce({entry, {}, ledger::Verdict::kUnjudged, hash}, std::move(evidence));
  }
}

// With the request up to the end of the disputed window: what comes later decides nothing.
Bytes DisputeResolver::evidence_of(std::uint64_t entry, const Case& one,
                                   ledger::Verdict verdict) const {
  const Dispute& dispute = one.dispute;
  const std::uint32_t window = dispute.finding.window;
  ledger::VerdictEvidence out;
  out.cluster = cluster_;
  out.entry = entry;
  out.place = {window, dispute.finding.stage};
  std::uint32_t positions = 0;
  for (const auto& [number, stages] : dispute.request.windows()) {
    if (number > window) break;
    positions += stages.front()->positions;
    for (const auto& logged : stages) {
      const auto& receipt = dispute.receipts.at(logged->entry);
      out.receipts.emplace_back(receipt.begin(), receipt.end());
    }
  }
  out.claimed = up_to(claimed_case(dispute.request), positions);
  INVARIANT(out.claimed.positions == positions, "a request has the tokens of its windows");
  out.seal = dispute.seal;
  out.auditor_root = dispute.finding.root;
  out.auditor_salt = dispute.opened_salt;
  if (one.rests_on_audited) {
    out.auditor_answer = up_to(audited_case(dispute.request, dispute.generated), positions).answer;
    out.auditor_windows = dispute.generated.out_roots();
    std::erase_if(out.auditor_windows, [window](const auto& of) { return of.first > window; });
  }
  out.truth = one.ruling.truth;
  out.guilty = one.accused;
  if (one.was_run_again) out.same_again = one.judged.same_again;
  out.answer = one.answer;
  out.damage = one.damage;
  out.verdict = verdict;
  return ledger::write_evidence(out);
}

void DisputeResolver::meet(const std::string& node, const PublicKey& key) {
  keys_.meet(node, key);
  for (auto& [entry, one] : cases_) {
    if (one.state == State::kAccused && one.accused == key) send_accusation(entry, one);
  }
}

// --- time ---

void DisputeResolver::on_timer() {
  const TimePoint now = clock_.now();
  std::vector<std::uint64_t> late;
  for (const auto& [entry, one] : cases_) {
    const bool waits = one.state == State::kAgain || one.state == State::kAccused;
    if (waits && now - one.at >= kPatience) late.push_back(entry);
  }
  for (const std::uint64_t entry : late) {
    const auto at = cases_.find(entry);
    if (at == cases_.end()) continue;
    Case& one = at->second;
    if (one.state == State::kAgain) {
      runs_.erase(one.again.name);
      accuse(entry, one);
    } else if (keys_.node_of(one.accused).empty()) {
      one.at = now;  // it is lost, which is not a verdict
    } else if (one.times < 2) {
      send_accusation(entry, one);
    } else {
      judge(at);
    }
  }
  keys_.on_timer();
}

}  // namespace hearth::coordinator

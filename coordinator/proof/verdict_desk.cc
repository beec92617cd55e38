#include "coordinator/proof/verdict_desk.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/hex.h"
#include "coordinator/proof/kept_verdict.h"
#include "ledger/receipt.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {
namespace {

constexpr std::size_t kWordsMost = 1'024;  // of a node, kept as evidence

// One line for the process log and for evidence, whatever a node sends.
std::string line_of(const std::string& words) {
  std::string line = words.substr(0, kWordsMost);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return line;
}

}  // namespace

// --- the referee ---

bool VerdictDesk::begin(Dispute dispute) {
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

void VerdictDesk::ask_next() {
  if (before_referee_) return;
  for (auto& [entry, one] : cases_) {
    if (one.state != State::kQueued) continue;
    one.state = State::kRefereed;
    return ask(entry, claimed_case(one.dispute.request));
  }
}

void VerdictDesk::ask(std::uint64_t entry, RefereeCase request) {
  before_referee_ = entry;
  asks_.push_back({entry, std::move(request)});
}

void VerdictDesk::found(std::uint64_t entry, const Result<RefereeFinding>& finding) {
  if (before_referee_ != entry) return;
  before_referee_.reset();
  const auto at = cases_.find(entry);
  if (at != cases_.end()) {
    Case& one = at->second;
    const Dispute& dispute = one.dispute;
    if (!finding && finding.error().code == ErrorCode::kUnavailable && one.third.empty() &&
        ask_third(entry, one)) {
      return;
    }
    if (!finding) {
      leave_open(at, "no referee: " + finding.error().message +
                         (one.third.empty() ? "; and no third pipeline of the same cut" : ""));
    } else {
      const bool is_audited = std::exchange(one.audited_asked, false);
      if (!is_audited) one.claimed = *finding;
      const auto ruling = rule(dispute.request, dispute.finding, dispute.generated,
                               dispute.fed ? &*dispute.fed : nullptr, *one.claimed,
                               is_audited ? &*finding : nullptr);
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

// What the referee was asked last, of a third pipeline.
bool VerdictDesk::ask_third(std::uint64_t entry, Case& one) {
  const Dispute& dispute = one.dispute;
  RefereeCase wanted = one.audited_asked ? audited_case(dispute.request, dispute.generated)
                                         : claimed_case(dispute.request);
  if (!third_.begin(dispute.request, std::move(wanted), dispute.generated.pipeline)) return false;
  before_referee_ = entry;
  return true;
}

void VerdictDesk::hear_third() {
  auto heard = third_.take_found();
  if (!heard || !before_referee_) return;
  const std::uint64_t entry = *before_referee_;
  Case& one = cases_.at(entry);
  if (heard->who.empty()) one.third = {cluster_};  // nobody is asked after it
  if (!heard->who.empty()) one.third = std::move(heard->who);
  found(entry, heard->finding);
}

// One against two at most: the side that is not false has what the third pipeline has.
bool VerdictDesk::is_backed(const Case& one) {
  const AuditCase::Finding& finding = one.dispute.finding;
  const Hash256& said = one.dispute.request.windows().at(finding.window)[finding.stage]->out_root;
  const bool is_worker = one.ruling.who == Ruling::False::kWorker;
  return one.ruling.truth == (is_worker ? finding.root : said);
}

void VerdictDesk::ruled(std::uint64_t entry, Case& one) {
  const Dispute& dispute = one.dispute;
  if (one.ruling.wants_audited) {
    one.audited_asked = true;
    if (!one.third.empty()) {
      if (ask_third(entry, one)) return;
      return leave_open(cases_.find(entry), "no third pipeline serves any more");
    }
    return ask(entry, audited_case(dispute.request, dispute.generated));
  }
  if (!one.third.empty() && one.ruling.who != Ruling::False::kNobody && !is_backed(one)) {
    return leave_open(cases_.find(entry), "the third pipeline has what neither side has");
  }
  // Then the error may be this machine's.
  if (one.ruling.is_alone && !std::exchange(one.asked_twice, true)) {
    return ask(entry, claimed_case(dispute.request));
  }
  if (one.ruling.who == Ruling::False::kNobody) {
    return leave_open(cases_.find(entry), one.ruling.why);
  }
  const bool is_worker = one.ruling.who == Ruling::False::kWorker;
  const ReceiptPipeline::Stage& worker = dispute.request.pipeline().stages[dispute.finding.stage];
  one.node = is_worker ? worker.node : dispute.auditor;
  one.accused = is_worker ? worker.key : dispute.auditor_key;
  one.root = dispute.finding.root;
  if (is_worker) {
    one.root =
        dispute.request.windows().at(dispute.finding.window)[dispute.finding.stage]->out_root;
  }
  spdlog::error("entry {}: the referee computes otherwise than node {}, which {} it", entry,
                one.node, is_worker ? "served" : "audited");
  report(one);
  if (one.accused == cluster_) {  // the referee himself, who computed it twice to two results
    one.judged.plea = ledger::Plea::kConceded;
    return judge(cases_.find(entry));
  }
  run_again(entry, one);
}

// The window in dispute, and whose it is.
AuditOutcome VerdictDesk::outcome_of(const Case& one) {
  const Dispute& dispute = one.dispute;
  const AuditCase& request = dispute.request;
  AuditOutcome outcome;
  outcome.kind = AuditOutcome::Kind::kDisputed;
  outcome.request = request.request().order.request;
  outcome.epoch = request.request().epoch;
  outcome.entry = dispute.finding.entry;
  outcome.stage = dispute.finding.stage;
  outcome.window = dispute.finding.window;
  outcome.node = request.pipeline().stages[dispute.finding.stage].node;
  return outcome;
}

// For whoever asked for the request to be verified.
void VerdictDesk::report(const Case& one) {
  const AuditCase& request = one.dispute.request;
  AuditOutcome outcome = outcome_of(one);
  if (one.ruling.who == Ruling::False::kWorker) {
    outcome.kind = AuditOutcome::Kind::kFalse;
    outcome.answer = one.claimed->tokens;
  } else if (is_right(request, *one.claimed)) {
    outcome.kind = AuditOutcome::Kind::kAgreed;
    for (const auto& [window, stages] : request.windows()) {
      for (std::uint32_t i = 0; i < stages.size(); ++i) {
        outcome.windows.push_back({stages[i]->entry, i, window, 1});
      }
    }
  } else {
    outcome.kind = AuditOutcome::Kind::kUnaudited;
    outcome.why = "its auditor was false, and what else is false in it is in no dispute";
  }
  outcomes_.push_back(std::move(outcome));
}

void VerdictDesk::leave_open(Cases::iterator at, const std::string& why) {
  spdlog::error("the dispute over entry {} stays open: {}", at->first, why);
  outcomes_.push_back(outcome_of(at->second));
  runs_.erase(at->second.again.name);
  cases_.erase(at);
}

// --- once more, by the accused ---

void VerdictDesk::run_again(std::uint64_t entry, Case& one) {
  const Dispute& dispute = one.dispute;
  const bool is_worker = one.ruling.who == Ruling::False::kWorker;
  const Epoch epoch =
      is_worker ? dispute.request.pipeline().epoch : dispute.generated.pipeline->epoch;
  const auto pipeline = pipelines_.find(epoch);
  if (pipeline == pipelines_.end()) return play(entry, one);  // it does not stand any more
  Hash256 own;
  random_bytes(own.bytes);
  const ledger::RequestId name =
      ledger::request_of(ledger::answer_name(clock_.unix_seconds(), own.bytes), 0);
  const bool is_last =
      dispute.finding.stage + std::size_t{1} == dispute.request.pipeline().stages.size();
  AuditRun order = is_last ? dispute.request.generate(name) : dispute.request.feed(name);
  for (const ReceiptPipeline::Stage& stage : pipeline->second->stages) {
    order.nodes.push_back(stage.node);
  }
  order.for_newcomers = pipeline->second->checks;
  one.again = {name, pipeline->second, !is_last, {}, {}};
  one.state = State::kAgain;
  one.at = clock_.now();
  runs_[name] = entry;
  to_run_.push_back(std::move(order));
}

void VerdictDesk::over(const ReceiptRequest& request) {
  if (third_.is_run(request.order.request)) {
    third_.over(request);
    return hear_third();
  }
  if (games_.is_run(request.order.request)) {
    games_.over(request);
    return take_games();
  }
  const auto run = runs_.find(request.order.request);
  if (run == runs_.end()) return;
  Case& one = cases_.at(run->second);
  if (request.epoch != one.again.pipeline->epoch) {
    return give_up(request.order.request, "its pipeline was lost");
  }
  one.again.tokens = request.tokens;
  if (one.again.is_whole()) ran_again(one);
}

Status VerdictDesk::take_claim(const std::string& node, const ledger::RequestId& run,
                               const control::v1::WindowClaim& claim) {
  if (third_.is_run(run)) {
    const Status taken = third_.take_claim(node, claim);
    hear_third();
    return taken;
  }
  if (games_.is_run(run)) return ok_status();  // what was claimed was claimed before
  Case& one = cases_.at(runs_.at(run));
  TRY_VOID(one.dispute.request.take(one.again, node, claim, cluster_));
  if (one.again.is_whole()) ran_again(one);
  return ok_status();
}

void VerdictDesk::give_up(const ledger::RequestId& name, const std::string& why) {
  if (third_.is_run(name)) {
    third_.give_up(name);
    return hear_third();
  }
  if (games_.is_run(name)) {
    games_.give_up(name, why);
    return take_games();
  }
  const auto run = runs_.find(name);
  if (run == runs_.end()) return;
  const std::uint64_t entry = run->second;
  runs_.erase(run);
  play(entry, cases_.at(entry));
}

// What came in must be what came in before: else it says nothing.
void VerdictDesk::ran_again(Case& one) {
  const AuditCase::Finding& finding = one.dispute.finding;
  const AuditCase& request = one.dispute.request;
  const bool is_worker = one.ruling.who == Ruling::False::kWorker;
  const auto window = one.again.windows.find(finding.window);
  const bool is_last = finding.stage + std::size_t{1} == request.pipeline().stages.size();
  if (is_last && is_worker) {
    one.judged.same_again = request.same_tokens(one.again);
  } else if (window != one.again.windows.end()) {
    const Hash256& in = finding.stage == 0
                            ? window->second[0]->in_root
                            : one.claimed->windows.at(finding.window)[finding.stage].in;
    one.judged.same_again =
        window->second[finding.stage]->out_root == one.root &&
        (is_last || finding.stage == 0 || window->second[finding.stage]->in_root == in);
  }
  one.was_run_again = true;
  runs_.erase(one.again.name);
  play(finding.entry, one);
}

// --- the game ---

// Who has nothing to lose plays none.
void VerdictDesk::play(std::uint64_t entry, Case& one) {
  one.state = State::kGame;
  one.played.entry = entry;
  if (is_ended(one.accused)) {
    one.played.why = "a verdict has ended its key already";
    return accuse(entry, one);
  }
  if (one.dispute.auditor_key == cluster_) {
    one.played.why = "the referee himself audited it";
    return accuse(entry, one);
  }
  const auto why = games_.begin(table_of(one));
  if (!why) return take_games();
  one.played.why = *why;
  accuse(entry, one);
}

DisputeTable VerdictDesk::table_of(const Case& one) const {
  const Dispute& dispute = one.dispute;
  const AuditCase::Finding& finding = dispute.finding;
  const AuditCase& request = dispute.request;
  const ReceiptPipeline& own = request.pipeline();
  DisputeTable table;
  table.said.cluster = cluster_;
  for (std::uint32_t w = 0; w <= finding.window; ++w) {
    const auto& bytes = dispute.receipts.at(request.windows().at(w)[finding.stage]->entry);
    table.said.receipts.emplace_back(bytes.begin(), bytes.end());
  }
  table.said.seal = dispute.seal;
  table.said.opened_root = finding.root;
  table.said.opened_salt = dispute.opened_salt;
  table.said.salt = request.request().order.salt;
  table.model = own.model;
  table.run = request.feed({});
  const auto side = [this](const PublicKey& key, Epoch epoch) {
    const auto pipeline = pipelines_.find(epoch);
    if (pipeline == pipelines_.end()) return DisputeTable::Side();
    return DisputeTable::Side{node_of(key), pipeline->second};
  };
  table.sides = {side(own.stages[finding.stage].key, own.epoch),
                 side(dispute.auditor_key, finding.epoch)};
  table.witness = one.ruling.who == Ruling::False::kWorker ? ledger::DisputeSide::kAuditor
                                                           : ledger::DisputeSide::kWorker;
  return table;
}

void VerdictDesk::take_games() {
  for (DisputePlayed& played : games_.take_played()) {
    const auto at = cases_.find(played.entry);
    if (at == cases_.end()) continue;
    Case& one = at->second;
    one.played = std::move(played);
    const auto side = static_cast<std::size_t>(one.ruling.who == Ruling::False::kWorker
                                                   ? ledger::DisputeSide::kWorker
                                                   : ledger::DisputeSide::kAuditor);
    if (one.played.decided && !one.played.wrong[side]) {
      leave_open(at, "the referee finds node " + one.node +
                         " false, and the game of the two another one: " + one.played.why);
    } else {
      accuse(at->first, one);
    }
  }
}

void VerdictDesk::lose(const std::string& node) {
  present_.erase(node);
  games_.lose(node);
  take_games();
}

void VerdictDesk::take(const std::string& node, const control::v1::DisputeMove& move) {
  games_.take(node, move);
  take_games();
}

std::vector<AuditRun> VerdictDesk::take_runs() {
  for (AuditRun& run : third_.take_runs()) to_run_.push_back(std::move(run));
  for (AuditRun& run : games_.take_runs()) to_run_.push_back(std::move(run));
  return std::exchange(to_run_, {});
}

std::vector<VerdictDesk::Message> VerdictDesk::take_messages() {
  for (DisputeDesk::Message& one : games_.take_messages()) {
    Message& message = messages_.emplace_back();
    message.node = std::move(one.node);
    *message.body.mutable_dispute() = std::move(one.body);
  }
  return std::exchange(messages_, {});
}

// --- the accused ---

void VerdictDesk::accuse(std::uint64_t entry, Case& one) {
  one.state = State::kAccused;
  one.at = clock_.now();
  send_accusation(entry, one);
}

// Who is lost hears of it when it is back.
void VerdictDesk::send_accusation(std::uint64_t entry, Case& one) {
  const std::string node = node_of(one.accused);
  if (node.empty()) return;
  ++one.times;
  one.node = node;
  one.at = clock_.now();
  Message& message = messages_.emplace_back();
  message.node = node;
  control::v1::Accusation& body = *message.body.mutable_accusation();
  body.set_entry(entry);
  if (one.ruling.who == Ruling::False::kWorker) body.set_receipt(to_field(one.dispute.receipt()));
  body.set_root(to_field(one.root.bytes));
  body.set_found(to_field(one.ruling.truth.bytes));
}

std::string VerdictDesk::node_of(const PublicKey& key) const {
  const auto found = std::ranges::find(present_, key, [](const auto& one) { return one.second; });
  return found == present_.end() ? "" : found->first;
}

void VerdictDesk::take(const std::string& node, const control::v1::Answer& answer) {
  const auto at = cases_.find(answer.entry());
  const auto key = present_.find(node);
  if (at == cases_.end() || key == present_.end()) return;  // late
  Case& one = at->second;
  if (one.state != State::kAccused || one.accused != key->second) return;
  ledger::Answer said{answer.entry(),
                      key->second,
                      ledger::Plea::kNone,
                      answer.found().weights_whole(),
                      answer.found().self_test_passed(),
                      {}};
  const bool known = answer.plea() == static_cast<std::uint32_t>(ledger::Plea::kConceded) ||
                     answer.plea() == static_cast<std::uint32_t>(ledger::Plea::kContested);
  if (known) said.plea = static_cast<ledger::Plea>(answer.plea());
  if (!known || answer.trace().size() > ledger::kTraceBytes ||
      !read_field(answer.signature(), said.signature) || !ledger::check_answer(said, cluster_)) {
    spdlog::error("node {}: an answer about entry {} that is none", node, answer.entry());
    return;
  }
  one.answer = said;
  one.judged.plea = said.plea;
  one.judged.weights_whole = said.weights_whole;
  one.judged.self_test_passed = said.self_test_passed;
  one.damage = line_of(answer.found().what());
  judge(at);
}

void VerdictDesk::judge(Cases::iterator at) {
  const auto& [entry, one] = *at;
  const ledger::Verdict verdict = ledger::verdict_of(one.judged);
  const std::string plea = one.judged.plea == ledger::Plea::kConceded    ? "it concedes"
                           : one.judged.plea == ledger::Plea::kContested ? "it contests"
                                                                         : "it says nothing";
  const std::string again = !one.was_run_again      ? "its pipeline ended before it computed again"
                            : one.judged.same_again ? "computed again, the same came out"
                                                    : "computed again, the same did not come out";
  spdlog::error("entry {}: {} of node {}: {}; its weights {}, its kernels {}; {}", entry,
                verdict_name(verdict), one.node, plea,
                one.judged.weights_whole ? "are whole" : "are damaged",
                one.judged.self_test_passed ? "pass their test" : "fail their test", again);
  Bytes evidence = evidence_of(entry, one, verdict);
  const Hash256 hash = blake2b(evidence);
  pronounce({{entry, one.accused, verdict, hash}, std::move(evidence), one.played.file});
  cases_.erase(at);
}

void VerdictDesk::pronounce(Judgement judgement) {
  const ledger::VerdictEntry& verdict = judgement.verdict;
  if (verdict.verdict == ledger::Verdict::kFraud) {
    ended_.insert(verdict.guilty);
  } else if (verdict.verdict == ledger::Verdict::kFault && verdict.guilty != cluster_) {
    quarantine(verdict.guilty, verdict.receipt);
  }
  verdicts_.push_back(std::move(judgement));
}

void VerdictDesk::take_up(const std::vector<Bytes>& kept) {
  const std::vector<std::uint64_t> disputes = books_.disputes();
  std::set<std::uint64_t> open(disputes.begin(), disputes.end());
  for (const Bytes& evidence : kept) {
    const auto verdict = verdict_in(evidence, books_);
    if (!verdict || open.erase(verdict->receipt) == 0) continue;
    spdlog::warn("entry {}: {} of {}, as the evidence says that the process before has left",
                 verdict->receipt, verdict_name(verdict->verdict), verdict->guilty.hex());
    pronounce({*verdict, evidence, {}});
  }
  for (const std::uint64_t entry : open) {
    spdlog::warn("the dispute over entry {} ends unjudged: the process before had its request",
                 entry);
    Bytes evidence = unjudged_evidence(entry, books_);
    const Hash256 hash = blake2b(evidence);
    pronounce({{entry, {}, ledger::Verdict::kUnjudged, hash}, std::move(evidence), {}});
  }
}

// Lines of a name and a value. Nothing of it derives from a prompt but by its salt.
Bytes VerdictDesk::evidence_of(std::uint64_t entry, const Case& one,
                               ledger::Verdict verdict) const {
  const Dispute& dispute = one.dispute;
  std::string text(kVerdictEvidence);
  const auto add = [&text](std::string_view name, const std::string& value) {
    text += std::string(name) + " " + value + "\n";
  };
  add("cluster", cluster_.hex());
  add("entry", std::to_string(entry));
  add("receipt", to_hex(dispute.receipt()));
  add("auditor", dispute.auditor_key.hex());
  add("auditor-root", to_hex(dispute.finding.root.bytes));
  add("true-root", to_hex(one.ruling.truth.bytes));
  add("guilty", one.accused.hex());
  add("root", to_hex(one.root.bytes));
  for (const PublicKey& key : one.third) add("referee", key.hex());
  add("same-again", !one.was_run_again ? "-" : one.judged.same_again ? "1" : "0");
  if (one.answer) {
    add("plea", std::to_string(static_cast<unsigned>(one.answer->plea)));
    add("weights-whole", one.answer->weights_whole ? "1" : "0");
    add("self-test-passed", one.answer->self_test_passed ? "1" : "0");
    add("signature", to_hex(one.answer->signature));
    if (!one.damage.empty()) add("damage", one.damage);
  }
  text += game_lines(one);
  add("verdict", std::string(verdict_name(verdict)));
  const ByteSpan bytes = as_bytes(text);
  return Bytes(bytes.begin(), bytes.end());
}

// The file that shows it, or why there is none.
std::string VerdictDesk::game_lines(const Case& one) {
  std::string lines = "game " + line_of(one.played.why) + "\n";
  if (one.played.file.empty()) return lines;
  lines += std::string(ledger::kEvidenceDispute) + blake2b(one.played.file).hex() + "\n";
  if (one.played.needs_model) lines += std::string(ledger::kEvidenceNeedsModel) + "\n";
  return lines;
}

// --- who may be given work ---

void VerdictDesk::meet(const std::string& node, const PublicKey& key) {
  present_[node] = key;
  for (auto& [entry, one] : cases_) {
    if (one.state == State::kAccused && one.accused == key) send_accusation(entry, one);
  }
  if (quarantined_.contains(key)) send_check(node, key);
  if (is_ended(key) || refused_.contains(key)) send_ended(node, key);
}

void VerdictDesk::refuse(const std::string& node, const PublicKey& key) {
  if (!refused_.insert(key).second) return;
  send_ended(node, key);
}

void VerdictDesk::send_ended(const std::string& node, const PublicKey& key) {
  Message& message = messages_.emplace_back();
  message.node = node;
  message.body.mutable_ended()->set_why(why_barred(key));
}

void VerdictDesk::quarantine(const PublicKey& key, std::uint64_t entry) {
  quarantined_[key] = {entry, 0, clock_.now()};
  if (const std::string node = node_of(key); !node.empty()) send_check(node, key);
}

void VerdictDesk::send_check(const std::string& node, const PublicKey& key) {
  Quarantine& one = quarantined_.at(key);
  one.number = next_check_++;
  one.sent = clock_.now();
  Message& message = messages_.emplace_back();
  message.node = node;
  message.body.mutable_self_check()->set_number(one.number);
  message.body.mutable_self_check()->set_why(why_barred(key));
}

void VerdictDesk::take(const std::string& node, const control::v1::SelfChecked& found) {
  const auto key = present_.find(node);
  if (key == present_.end()) return;
  const auto one = quarantined_.find(key->second);
  if (one == quarantined_.end() || one->second.number != found.number()) return;
  if (!found.weights_whole() || !found.self_test_passed()) {
    spdlog::error("node {} is damaged: {}", node, line_of(found.what()));
    return;  // asked again in a while: damaged weights are dropped, and read anew
  }
  spdlog::info("node {} has looked at itself and is whole; it is given work again", node);
  quarantined_.erase(one);
}

bool VerdictDesk::is_ended(const PublicKey& key) const {
  const ledger::Standing* standing = books_.standing(key);
  return ended_.contains(key) || (standing != nullptr && standing->is_tombstoned());
}

std::string VerdictDesk::why_barred(const PublicKey& key) const {
  if (is_ended(key)) {
    return "the ledger has found it a fraud: it never serves or checks again under its key";
  }
  if (refused_.contains(key)) {
    return "in an audit it claimed what it had not computed: it gets no work until this server is "
           "started anew";
  }
  const auto one = quarantined_.find(key);
  if (one == quarantined_.end()) return "";
  return "it was found at fault (entry " + std::to_string(one->second.entry) +
         " of the ledger), and has to hash its weights and test its kernels first";
}

std::map<PublicKey, std::string> VerdictDesk::barred() const {
  std::map<PublicKey, std::string> all;
  const auto add = [&](const PublicKey& key) {
    if (std::string why = why_barred(key); !why.empty()) all[key] = std::move(why);
  };
  for (const PublicKey& key : books_.keys()) add(key);
  for (const auto& [key, one] : quarantined_) add(key);
  for (const PublicKey& key : refused_) add(key);
  for (const PublicKey& key : ended_) add(key);
  return all;
}

// Whether it was repaired since, no entry says.
void VerdictDesk::recall(const ledger::Entry& entry) {
  const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry.body);
  if (verdict == nullptr || verdict->verdict != ledger::Verdict::kFault) return;
  if (verdict->guilty == cluster_) return;  // it is given no work anyway
  quarantined_[verdict->guilty] = {verdict->receipt, 0, clock_.now()};
}

void VerdictDesk::logged(const ledger::Entry& entry) {
  PublicKey guilty;
  if (const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry.body)) {
    guilty = verdict->guilty;
  } else if (const auto* two = std::get_if<ledger::EquivocationEntry>(&entry.body)) {
    const auto receipt = ledger::reread_receipt(two->one);
    if (!receipt) return;
    guilty = receipt->worker;
  } else {
    return;
  }
  const std::string node = node_of(guilty);
  if (!is_ended(guilty) || node.empty()) return;
  send_ended(node, guilty);
}

// --- time ---

void VerdictDesk::on_timer() {
  const TimePoint now = clock_.now();
  third_.on_timer();
  hear_third();
  games_.on_timer();
  take_games();
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
      play(entry, one);
    } else if (node_of(one.accused).empty()) {
      one.at = now;  // it is lost, which is none of the verdicts
    } else if (one.times < 2) {
      send_accusation(entry, one);
    } else {
      judge(at);
    }
  }
  for (auto& [key, one] : quarantined_) {
    const std::string node = node_of(key);
    if (!node.empty() && now - one.sent >= kPatience) send_check(node, key);
  }
}

}  // namespace hearth::coordinator

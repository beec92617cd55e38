#include "coordinator/proof/receipt_collector.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/hex.h"
#include "base/limits.h"
#include "ledger/policy.h"
#include "proto/committed_sampling.h"
#include "proto/fixed_field.h"

namespace hearth::coordinator {
namespace {

constexpr Duration kPatience = std::chrono::seconds(limits::kReceiptSeconds);
// Tokens that requests hold while they wait for their receipts.
constexpr std::size_t kTokens = limits::kReceiptQueueBytes / sizeof(TokenId);

Hash256 as_hash(const PublicKey& key) {
  Hash256 hash;
  std::ranges::copy(key.bytes(), hash.bytes.begin());
  return hash;
}

std::string describe(const ReceiptPipeline& pipeline, std::size_t stage) {
  return "node " + pipeline.stages[stage].node + " (stage " + std::to_string(stage + 1) + ")";
}

std::string describe(const ledger::RequestId& request, std::uint32_t window) {
  return "request " + to_hex(request) + ", window " + std::to_string(window);
}

// What all stages of a window must say: positions and tokens of it.
struct Facts {
  std::uint32_t first = 0;
  std::uint32_t positions = 0;
  Hash256 tokens;
};

Result<Facts> facts_of(const ReceiptRequest& over, std::uint32_t window, std::uint32_t positions) {
  Facts facts{window * limits::kWindowPositions, positions, {}};
  REQUIRE(positions > 0 && facts.first + positions <= over.tokens.size(),
          "it has " + std::to_string(positions) + " positions from " + std::to_string(facts.first) +
              " on; the request has " + std::to_string(over.tokens.size()) + " tokens");
  std::vector<std::uint32_t> tokens;
  tokens.reserve(positions);
  for (std::uint32_t i = 0; i < positions; ++i) {
    tokens.push_back(static_cast<std::uint32_t>(over.tokens[facts.first + i]));
  }
  facts.tokens =
      ledger::commit_tokens(over.order.salt, facts.first, tokens, encode_committed(over.sampling));
  return facts;
}

// A window that is not full is the last: the books take no others.
bool is_in_place(const std::map<std::uint32_t, std::uint32_t>& settled, std::uint32_t window,
                 std::uint32_t positions) {
  const auto behind = settled.upper_bound(window);
  if (behind != settled.end() && positions < limits::kWindowPositions) return false;
  return behind == settled.begin() || std::prev(behind)->second == limits::kWindowPositions;
}

// Whose standing an entry needs, if anybody's. A receipt's worker is looked at as it is taken.
std::optional<PublicKey> party_of(const ledger::EntryBody& body) {
  if (const auto* one = std::get_if<ledger::ChangeEntry>(&body)) return one->key;
  if (const auto* one = std::get_if<ledger::SealEntry>(&body)) return one->auditor;
  if (const auto* one = std::get_if<ledger::OpeningEntry>(&body)) return one->auditor;
  if (const auto* one = std::get_if<ledger::VestEntry>(&body)) return one->key;
  return std::nullopt;
}

// Who loses its standing for good by an entry.
std::optional<PublicKey> tombstoned_by(const ledger::EntryBody& body) {
  if (const auto* one = std::get_if<ledger::VerdictEntry>(&body)) {
    if (one->verdict == ledger::Verdict::kFraud) return one->guilty;
  }
  if (const auto* proof = std::get_if<ledger::EquivocationEntry>(&body)) {
    const auto receipt = ledger::reread_receipt(proof->one);
    if (receipt) return receipt->worker;
  }
  return std::nullopt;
}

}  // namespace

// --- the log ---

Status ReceiptCollector::recall(ByteSpan bytes) {
  begun_ = true;
  if (const ByteSpan receipt = ledger::receipt_in(bytes); !receipt.empty()) {
    latest_[ledger::worker_in(receipt)] = blake2b(receipt);
    remember(receipt);
  }
  TRY(const ledger::Entry entry, ledger::parse_entry(bytes));
  time_ = entry.time;
  if (const auto gone = tombstoned_by(entry.body)) tombstoned_.insert(*gone);
  if (const auto* member = std::get_if<ledger::MemberEntry>(&entry.body)) {
    latest_.emplace(as_hash(member->key), Hash256());
  }
  return ok_status();
}

void ReceiptCollector::log(ledger::EntryBody body) {
  if (const auto party = party_of(body); party && tombstoned_.contains(*party)) return;
  if (const auto gone = tombstoned_by(body)) tombstoned_.insert(*gone);
  if (!std::exchange(begun_, true)) {
    log(ledger::RulesEntry{ledger::policy_hash({}), cluster_.public_key()});
  }
  time_ = std::max(time_, clock_.unix_seconds());
  entries_.push_back(ledger::write_entry({time_, std::move(body)}));
}

// A cluster lets a node in, and vouches for it by that, but for newcomers. A node
// without a named owner is its own owner.
Hash256& ReceiptCollector::latest(const PublicKey& key) {
  const auto [found, fresh] = latest_.emplace(as_hash(key), Hash256());
  const auto owner = owners_.find(key);
  if (fresh) {
    log(ledger::MemberEntry{key, owner == owners_.end() ? blake2b(key.bytes()) : owner->second,
                            !unvouched_.contains(key)});
  }
  return found->second;
}

// --- requests ---

void ReceiptCollector::begin(ReceiptPipeline pipeline) {
  const Epoch epoch = pipeline.epoch;
  for (const ReceiptPipeline::Stage& stage : pipeline.stages) {
    if (stage.owner != Hash256()) owners_[stage.key] = stage.owner;
  }
  pipelines_[epoch] = std::make_shared<const ReceiptPipeline>(std::move(pipeline));
}

void ReceiptCollector::start(Epoch epoch, const ledger::RequestId& request,
                             std::uint64_t positions) {
  const auto pipeline = pipelines_.find(epoch);
  if (pipeline == pipelines_.end() || requests_.size() >= limits::kReceiptRequests) return;
  if (seen_.size() >= limits::kReceiptsSeen) return;
  if (!seen_.emplace(RequestKey{request, epoch}, clock_.unix_seconds()).second) return;
  Request& begun = requests_[{request, epoch}];
  begun.pipeline = pipeline->second;
  begun.most = positions;
}

void ReceiptCollector::over(ReceiptRequest request) {
  const RequestKey key{request.order.request, request.epoch};
  const auto found = requests_.find(key);
  if (found == requests_.end() || found->second.over) return;
  if (tokens_ + request.tokens.size() > kTokens) {
    spdlog::warn("request {} has no receipts: too many wait for theirs", to_hex(key.first));
    requests_.erase(found);
    return;
  }
  tokens_ += request.tokens.size();
  found->second.over = std::move(request);
  found->second.over_at = clock_.now();
  settle(key);
}

void ReceiptCollector::end(Epoch epoch) {
  pipelines_.erase(epoch);
  std::erase_if(seen_, [epoch](const auto& one) { return one.first.second == epoch; });
  std::erase_if(requests_,
                [epoch](const auto& one) { return one.first.second == epoch && !one.second.over; });
}

// --- claims ---

void ReceiptCollector::take(const std::string& node, const control::v1::WindowClaims& claims) {
  for (const control::v1::WindowClaim& claim : claims.windows()) {
    const Status taken = take_claim(node, claim);
    if (taken.ok()) continue;
    spdlog::error("node {} claims what cannot be: {}", node, taken.error().message);
    return;
  }
}

Status ReceiptCollector::take_claim(const std::string& node,
                                    const control::v1::WindowClaim& claim) {
  RequestKey key{{}, Epoch(claim.epoch())};
  REQUIRE(read_field(claim.request(), key.first), "a request of a wrong length");
  const auto found = requests_.find(key);
  if (found == requests_.end()) return ok_status();  // it went on elsewhere, or waited for too long
  Request& request = found->second;
  const std::vector<ReceiptPipeline::Stage>& stages = request.pipeline->stages;
  const auto stage = std::ranges::find(stages, node, &ReceiptPipeline::Stage::node);
  const std::uint32_t window = claim.window();
  const std::string what = describe(key.first, window);
  REQUIRE(stage != stages.end(), what + ": it is no stage of that pipeline");
  REQUIRE(claim.positions() <= limits::kWindowPositions,
          what + " of " + std::to_string(claim.positions()) + " positions; the limit is " +
              std::to_string(limits::kWindowPositions));
  REQUIRE(std::uint64_t{window} * limits::kWindowPositions < request.most,
          what + ": the request has at most " + std::to_string(request.most) + " positions");
  const auto index = static_cast<std::uint16_t>(stage - stages.begin());
  const auto said = read_claim(claim, key.first, index, stage->key, cluster_.public_key());
  REQUIRE(said, what + ": " + said.error().message);
  REQUIRE(!request.settled.contains(window), what + ": it is claimed twice");
  Claims& claims = request.windows[window];
  claims.resize(stages.size());
  REQUIRE(!claims[index], what + ": it is claimed twice");
  claims[index] = *said;
  settle(key);
  return ok_status();
}

// Every window of a request that is over and that all stages have claimed.
void ReceiptCollector::settle(const RequestKey& key) {
  const auto found = requests_.find(key);
  Request& request = found->second;
  if (!request.over) return;
  for (auto window = request.windows.begin(); window != request.windows.end();) {
    const Claims& claims = window->second;
    if (!std::ranges::all_of(claims, [](const auto& one) { return one.has_value(); })) {
      ++window;
      continue;
    }
    const Status settled = settle(request, window->first, claims);
    if (!settled.ok()) {
      spdlog::error("no receipts of {}: {}", describe(key.first, window->first),
                    settled.error().message);
    }
    request.positions += claims.front()->positions;
    window = request.windows.erase(window);
  }
  for (const ReceiptPipeline::Stage& stage : request.pipeline->stages) ask(stage.node);
  // The last token is never fed; that of a cancelled request may be.
  if (request.positions + 1 < request.over->tokens.size()) return;
  tokens_ -= request.over->tokens.size();
  requests_.erase(found);
}

// Every stage is to sign its receipt, if all of them say the same.
Status ReceiptCollector::settle(Request& request, std::uint32_t window, const Claims& claims) {
  const ReceiptPipeline& pipeline = *request.pipeline;
  const std::size_t stages = claims.size();
  TRY(const Facts facts, facts_of(*request.over, window, claims.front()->positions));
  for (std::size_t i = 0; i < stages; ++i) {
    REQUIRE(claims[i]->positions == facts.positions,
            describe(pipeline, i) + " has " + std::to_string(claims[i]->positions) +
                " positions, the stage before it " + std::to_string(facts.positions));
    REQUIRE(i == 0 || claims[i]->in_root == claims[i - 1]->out_root,
            "what went out of " + describe(pipeline, i - 1) + " is not what came in at " +
                describe(pipeline, i));
  }
  REQUIRE(claims.front()->in_root == facts.tokens,
          describe(pipeline, 0) + " had other tokens than it was sent");
  REQUIRE(claims.back()->out_root == facts.tokens,
          describe(pipeline, stages - 1) + " had other tokens than the request has");
  REQUIRE(is_in_place(request.settled, window, facts.positions),
          "it or a window before it has fewer than " + std::to_string(limits::kWindowPositions) +
              " positions, and is not the request's last");
  request.settled[window] = facts.positions;

  const std::uint32_t end = facts.first + facts.positions;
  const auto cluster_signs = [&](std::uint16_t below) {
    return ledger::sign_edge(
        {request.over->order.request, pipeline.epoch.value, below, window, facts.tokens},
        cluster_.public_key(), cluster_);
  };
  for (std::size_t i = 0; i < stages; ++i) {
    ledger::Receipt receipt;
    receipt.slot = {request.over->order.request, pipeline.epoch.value,
                    static_cast<std::uint16_t>(i), window};
    receipt.program = pipeline.program;
    receipt.layer_begin = static_cast<std::uint16_t>(pipeline.stages[i].layers.begin);
    receipt.layer_end = static_cast<std::uint16_t>(pipeline.stages[i].layers.end);
    receipt.stages = static_cast<std::uint16_t>(stages);
    receipt.first_position = facts.first;
    receipt.positions = facts.positions;
    receipt.prompt_positions =
        std::clamp(request.over->prompt_tokens, facts.first, end) - facts.first;
    receipt.tokens = facts.tokens;
    receipt.in_root = claims[i]->in_root;
    receipt.out_root = claims[i]->out_root;
    receipt.worker = pipeline.stages[i].key;
    receipt.in_edge = i == 0 ? cluster_signs(0) : claims[i - 1]->out_signature;
    receipt.out_edge = i + 1 == stages ? cluster_signs(static_cast<std::uint16_t>(stages))
                                       : claims[i + 1]->in_signature;
    if (tombstoned_.contains(receipt.worker) || newcomers_.contains(receipt.worker)) continue;
    Signer& signer = signers_[pipeline.stages[i].node];
    if (signer.next.size() < limits::kReceiptWindows) signer.next.push_back(std::move(receipt));
  }
  return ok_status();
}

// --- receipts ---

void ReceiptCollector::ask(const std::string& node) {
  const auto found = signers_.find(node);
  if (found == signers_.end()) return;
  Signer& signer = found->second;
  if (!signer.asked.empty()) return;
  if (signer.next.empty()) {
    signers_.erase(found);
    return;
  }
  Message& message = messages_.emplace_back();
  message.node = node;
  message.body.set_previous(to_field(latest(signer.next.front().worker).bytes));
  while (!signer.next.empty() && signer.asked.size() < limits::kReceiptBatch) {
    const ledger::Receipt& receipt = signer.asked.emplace_back(std::move(signer.next.front()));
    signer.next.pop_front();
    control::v1::Countersigned& window = *message.body.add_windows();
    window.set_request(to_field(receipt.slot.request));
    window.set_epoch(receipt.slot.epoch);
    window.set_window(receipt.slot.window);
    window.set_in_signature(to_field(receipt.in_edge));
    window.set_out_signature(to_field(receipt.out_edge));
  }
  signer.asked_at = clock_.now();
}

void ReceiptCollector::take(const std::string& node, const control::v1::Receipts& receipts) {
  const auto found = signers_.find(node);
  const auto was_asked = [](const Signer& signer, const std::string& bytes) {
    return std::ranges::any_of(
        signer.asked, [request = ledger::request_in(as_bytes(bytes))](const ledger::Receipt& one) {
          return one.slot.request == request;
        });
  };
  // A late one answers what was given up; what is asked now is still to be answered. What is late,
  // or behind a refused one in its worker's chain, is no receipt, and may still contradict one.
  const bool late = found == signers_.end() || (receipts.receipts_size() > 0 &&
                                                !was_asked(found->second, receipts.receipts(0)));
  bool taking = !late;
  for (const std::string& bytes : receipts.receipts()) {
    hold_against(node, as_bytes(bytes));
    if (!taking) continue;
    const Status taken = take_receipt(found->second, as_bytes(bytes));
    taking = taken.ok();
    if (taking) continue;
    spdlog::error("node {} sent a receipt that is refused: {}", node, taken.error().message);
  }
  if (late) return;
  give_up(node);
}

// What it was asked is not waited for any more.
void ReceiptCollector::give_up(const std::string& node) {
  Signer& signer = signers_.at(node);
  if (!signer.asked.empty()) {
    spdlog::warn("node {} gave no receipt for {} of its windows", node, signer.asked.size());
  }
  signer.asked.clear();
  ask(node);
}

// It must say what was settled, and may say when that was.
Status ReceiptCollector::take_receipt(Signer& signer, ByteSpan bytes) {
  TRY(const ledger::Receipt said, ledger::parse_receipt(bytes, cluster_.public_key()));
  const std::string what = describe(said.slot.request, said.slot.window);
  const auto asked = std::ranges::find(signer.asked, said.slot, &ledger::Receipt::slot);
  REQUIRE(asked != signer.asked.end(), what + ": this receipt was not asked for");
  ledger::Receipt expected = std::move(*asked);
  signer.asked.erase(signer.asked.begin(), asked + 1);  // what is before it was forgotten there
  REQUIRE(said.worker == expected.worker, what + ": it is signed by another key than its node's");
  REQUIRE(!tombstoned_.contains(said.worker), what + ": its worker has lost its standing for good");
  REQUIRE(!barred_.contains(said.worker), what + ": a verdict bars its worker");
  REQUIRE(!newcomers_.contains(said.worker), what + ": its worker is a newcomer");
  remember(bytes);
  REQUIRE(said.program == expected.program, what + ": it is of another model or program");
  Hash256& previous = latest(said.worker);
  REQUIRE(said.previous == previous, what + ": it does not follow the worker's latest one");
  expected.previous = said.previous;
  expected.begun_ms = said.begun_ms;
  expected.took_ms = said.took_ms;
  REQUIRE(said == expected, what + ": it is not what its worker and its neighbours said before");
  const std::int64_t most = ledger::Policy().audit_seconds;
  const std::int64_t age =
      std::max(time_, clock_.unix_seconds()) - static_cast<std::int64_t>(said.begun_ms / 1'000);
  REQUIRE(age <= most && age >= -most, what + ": it was begun " + std::to_string(age) +
                                           " seconds ago; the limit is " + std::to_string(most));
  ledger::ReceiptEntry entry;
  std::copy(bytes.begin(), bytes.end(), entry.receipt.begin());
  previous = blake2b(bytes);
  if (credits_) entry.payer = credits_->charge(said.slot.request, ledger::payer_price({}, said));
  log(entry);
  return ok_status();
}

// One that its worker signed, of a slot that it was asked for. The first of a slot stays.
void ReceiptCollector::remember(ByteSpan receipt) {
  const SignedSlot slot{ledger::worker_in(receipt), ledger::slot_in(receipt)};
  const auto [found, fresh] = remembered_.try_emplace(slot);
  if (!fresh) return;
  std::ranges::copy(receipt, found->second.begin());
  remembered_order_.push_back(slot);
  if (remembered_order_.size() <= kRemembered) return;
  remembered_.erase(remembered_order_.front());
  remembered_order_.pop_front();
}

void ReceiptCollector::hold_against(const std::string& sender, ByteSpan receipt) {
  const auto found = remembered_.find({ledger::worker_in(receipt), ledger::slot_in(receipt)});
  if (found == remembered_.end() || std::ranges::equal(found->second, receipt)) return;
  const auto one = ledger::reread_receipt(found->second);
  const auto other = ledger::parse_receipt(receipt, cluster_.public_key());
  if (!one || !other || !ledger::is_equivocation(*one, *other)) return;
  if (tombstoned_.contains(other->worker)) return;
  spdlog::error(
      "{}, stage {}: key {} signed two receipts that contradict each other; node {} sent "
      "the second",
      describe(other->slot.request, other->slot.window), other->slot.stage + 1, other->worker.hex(),
      sender);
  ledger::EquivocationEntry proof;
  proof.one = found->second;
  std::ranges::copy(receipt, proof.other.begin());
  bar(other->worker);
  contradicted_.insert(other->worker);
  log(proof);
}

std::set<ledger::RequestId> ReceiptCollector::unsettled() const {
  std::set<ledger::RequestId> found;
  for (const auto& [key, request] : requests_) found.insert(key.first);
  for (const auto& [node, signer] : signers_) {
    for (const ledger::Receipt& one : signer.next) found.insert(one.slot.request);
    for (const ledger::Receipt& one : signer.asked) found.insert(one.slot.request);
  }
  return found;
}

// --- what does not come ---

void ReceiptCollector::lose(const std::string& node) { signers_.erase(node); }

void ReceiptCollector::expire(const Request& request) const {
  for (const auto& [window, claims] : request.windows) {
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (claims[i]) continue;
      spdlog::warn("no receipts of {}: {} said nothing of it",
                   describe(request.over->order.request, window), describe(*request.pipeline, i));
    }
  }
}

void ReceiptCollector::on_timer() {
  const TimePoint now = clock_.now();
  for (auto one = requests_.begin(); one != requests_.end();) {
    const Request& request = one->second;
    if (!request.over || now - request.over_at < kPatience) {
      ++one;
      continue;
    }
    expire(request);
    tokens_ -= request.over->tokens.size();
    one = requests_.erase(one);
  }
  const std::int64_t old = clock_.unix_seconds() - ledger::Policy().audit_seconds;
  std::erase_if(seen_, [old](const auto& one) { return one.second < old; });
  std::vector<std::string> silent;
  for (const auto& [node, signer] : signers_) {
    if (!signer.asked.empty() && now - signer.asked_at >= kPatience) silent.push_back(node);
  }
  for (const std::string& node : silent) give_up(node);
}

}  // namespace hearth::coordinator

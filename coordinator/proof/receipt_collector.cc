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
// Windows that may wait for a node at the least, so that one key alone fills a message.
constexpr std::size_t kLeastWaiting = 2 * limits::kReceiptsAsked;
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
  REQUIRE(positions > 0 && facts.first + positions <= over.tokens.size(), "it has ", positions,
          " positions from ", facts.first, " on; the request has ", over.tokens.size(), " tokens");
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

// Windows that were computed of it, at least. How much of a prompt was, without a token, is
// unknown.
std::uint32_t windows_of(const ReceiptRequest& over) {
  if (over.tokens.size() <= over.prompt_tokens) return 0;
  const std::size_t positions = over.tokens.size() - 1;  // the last token is never fed
  return static_cast<std::uint32_t>((positions + limits::kWindowPositions - 1) /
                                    limits::kWindowPositions);
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

void ReceiptCollector::recall(const ledger::Books& books) {
  begun_ = begun_ || books.entries() > 0;
  time_ = std::max(time_, books.time());
  for (const PublicKey& key : books.keys()) {
    latest_[as_hash(key)] = books.latest(key);
    if (books.standing(key)->is_tombstoned()) tombstoned_.insert(key);
  }
}

void ReceiptCollector::remember_entry(ByteSpan entry) {
  if (const ByteSpan receipt = ledger::receipt_in(entry); !receipt.empty()) remember(receipt);
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

void ReceiptCollector::start(Epoch epoch, const ledger::RequestId& request, std::uint64_t positions,
                             const std::string& owner) {
  const auto pipeline = pipelines_.find(epoch);
  if (pipeline == pipelines_.end()) return;
  // What is refused is counted when it is over. Until then its claims cost nothing.
  if (!has_room(*pipeline->second, owner)) return;
  while (!places_.has_room(owner, limits::kReceiptRequests)) {
    if (!drop_idle()) return;
  }
  const RequestKey key{request, epoch};
  if (!seen_.emplace(key, clock_.now()).second) {
    spdlog::error(
        "request {} was already computed in this pipeline: the repetition gets no receipts",
        to_hex(request));
    return;
  }
  seen_order_.push_back(key);
  if (seen_order_.size() > limits::kReceiptsSeen) {
    seen_.erase(seen_order_.front());
    seen_order_.pop_front();
  }
  Request& begun = requests_[key];
  begun.pipeline = pipeline->second;
  begun.most = positions;
  begun.owner = owner;
  places_.take(owner);
}

// Whether every stage may be asked for one more receipt.
bool ReceiptCollector::has_room(const ReceiptPipeline& pipeline, const std::string& owner) const {
  return std::ranges::all_of(pipeline.stages, [&](const ReceiptPipeline::Stage& stage) {
    const auto signer = signers_.find(stage.node);
    return signer == signers_.end() || signer->second.shares.has_room(owner, signer->second.most);
  });
}

// Cancelled before its first token, and no stage has claimed anything of it: most likely there is
// nothing to claim, so that it waits only as long as no other one wants its place.
bool ReceiptCollector::is_idle(const Request& request) const {
  return request.over && windows_of(*request.over) == 0 && request.windows.empty() &&
         request.positions == 0;
}

// The one that waits for longest; false: no request is idle.
bool ReceiptCollector::drop_idle() {
  while (!idle_.empty()) {
    const auto found = requests_.find(idle_.front());
    idle_.pop_front();
    if (found == requests_.end() || !is_idle(found->second)) continue;
    drop(found);
    return true;
  }
  return false;
}

void ReceiptCollector::drop(Requests::iterator one) {
  const Request& request = one->second;
  places_.give_back(request.owner);
  if (request.over) tokens_.give_back(request.owner, request.over->tokens.size());
  requests_.erase(one);
}

void ReceiptCollector::over(ReceiptRequest request) {
  const RequestKey key{request.order.request, request.epoch};
  const auto found = requests_.find(key);
  if (found != requests_.end() && found->second.over) return;
  const std::size_t tokens = request.tokens.size();
  const std::string& owner = request.policy.owner;
  const auto pipeline = pipelines_.find(request.epoch);
  if (found == requests_.end() || !tokens_.has_room(found->second.owner, kTokens, tokens)) {
    if (pipeline != pipelines_.end() && !request.is_audit) {
      unreceipted_.add("", owner, windows_of(request) * pipeline->second->stages.size());
    }
    if (found != requests_.end()) drop(found);
    return;
  }
  tokens_.take(found->second.owner, tokens);
  found->second.over = std::move(request);
  found->second.over_at = clock_.now();
  if (is_idle(found->second)) idle_.push_back(key);
  settle(key);
}

void ReceiptCollector::end(Epoch epoch) {
  pipelines_.erase(epoch);
  std::erase_if(seen_, [epoch](const auto& one) { return one.first.second == epoch; });
  std::erase_if(seen_order_, [epoch](const RequestKey& one) { return one.second == epoch; });
  for (auto one = requests_.begin(); one != requests_.end();) {
    const auto next = std::next(one);
    if (one->first.second == epoch && !one->second.over) drop(one);
    one = next;
  }
}

// --- claims ---

void ReceiptCollector::take(const std::string& node, const control::v1::WindowClaims& claims) {
  for (const control::v1::WindowClaim& claim : claims.windows()) {
    const Status taken = take_claim(node, claim);
    if (taken.ok()) continue;
    spdlog::error("node {} sent an impossible claim: {}", node, taken.error().message);
    return;
  }
}

Status ReceiptCollector::take_claim(const std::string& node,
                                    const control::v1::WindowClaim& claim) {
  RequestKey key{{}, Epoch(claim.epoch())};
  REQUIRE(read_field(claim.request(), key.first), "request has a wrong length");
  const auto found = requests_.find(key);
  if (found == requests_.end()) return ok_status();  // it went on elsewhere, or waited for too long
  Request& request = found->second;
  const std::vector<ReceiptPipeline::Stage>& stages = request.pipeline->stages;
  const auto stage = std::ranges::find(stages, node, &ReceiptPipeline::Stage::node);
  const std::uint32_t window = claim.window();
  const std::string what = describe(key.first, window);
  REQUIRE(stage != stages.end(), what, ": it is not a stage of that pipeline");
  REQUIRE(claim.positions() <= limits::kWindowPositions, what, " of ", claim.positions(),
          " positions; the limit is ", limits::kWindowPositions);
  REQUIRE(std::uint64_t{window} * limits::kWindowPositions < request.most, what,
          ": the request has at most ", request.most, " positions");
  const auto index = static_cast<std::uint16_t>(stage - stages.begin());
  const auto said = read_claim(claim, key.first, index, stage->key, cluster_.public_key());
  REQUIRE(said, what, ": ", said.error().message);
  REQUIRE(!request.settled.contains(window), what, ": it is claimed twice");
  Claims& claims = request.windows[window];
  claims.resize(stages.size());
  REQUIRE(!claims[index], what, ": it is claimed twice");
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
      unreceipted_.add("", request.owner, claims.size());
    }
    request.claimed.insert(window->first);
    request.positions += claims.front()->positions;
    window = request.windows.erase(window);
  }
  for (const ReceiptPipeline::Stage& stage : request.pipeline->stages) ask(stage.node);
  // The last token is never fed; that of a cancelled request may be.
  if (request.positions + 1 < request.over->tokens.size()) return;
  drop(found);
}

// Every stage is to sign its receipt, if all of them say the same.
Status ReceiptCollector::settle(Request& request, std::uint32_t window, const Claims& claims) {
  const ReceiptPipeline& pipeline = *request.pipeline;
  const std::size_t stages = claims.size();
  TRY(const Facts facts, facts_of(*request.over, window, claims.front()->positions));
  for (std::size_t i = 0; i < stages; ++i) {
    REQUIRE(claims[i]->positions == facts.positions, describe(pipeline, i), " has ",
            claims[i]->positions, " positions, the stage before it ", facts.positions);
    REQUIRE(i == 0 || claims[i]->in_root == claims[i - 1]->out_root, "the output of ",
            describe(pipeline, i - 1), " is not the input of ", describe(pipeline, i));
  }
  REQUIRE(claims.front()->in_root == facts.tokens, describe(pipeline, 0),
          " had other tokens than it was sent");
  REQUIRE(claims.back()->out_root == facts.tokens, describe(pipeline, stages - 1),
          " had other tokens than the request has");
  REQUIRE(is_in_place(request.settled, window, facts.positions),
          "it or a window before it has fewer than ", limits::kWindowPositions,
          " positions, and is not the request's last");
  request.settled[window] = facts.positions;
  if (!has_room(pipeline, request.owner)) {
    unreceipted_.add("", request.owner, stages);
    return ok_status();
  }

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
    const std::uint32_t cached = std::clamp(request.over->cached, facts.first, end) - facts.first;
    signer.next.push_back({std::move(receipt), request.owner, cached});
    signer.shares.take(request.owner);
  }
  return ok_status();
}

// --- receipts ---

ReceiptCollector::Wanted ReceiptCollector::Signer::take_oldest() {
  Wanted oldest = std::move(next.front());
  next.pop_front();
  shares.give_back(oldest.owner);
  return oldest;
}

void ReceiptCollector::ask(const std::string& node) {
  const auto found = signers_.find(node);
  if (found == signers_.end()) return;
  Signer& signer = found->second;
  if (!signer.asked.empty() || signer.next.empty()) return;
  Message& message = messages_.emplace_back();
  message.node = node;
  message.body.set_previous(to_field(latest(signer.next.front().receipt.worker).bytes));
  message.body.set_now_ms(static_cast<std::uint64_t>(clock_.unix_seconds()) * 1'000);
  while (!signer.next.empty() && signer.asked.size() < limits::kReceiptsAsked) {
    const ledger::Receipt& receipt = signer.asked.emplace_back(signer.take_oldest()).receipt;
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
    return std::ranges::any_of(signer.asked,
                               [request = ledger::request_in(as_bytes(bytes))](const Wanted& one) {
                                 return one.receipt.slot.request == request;
                               });
  };
  // A late message answers an abandoned order; the present order is still open. A receipt that is
  // late, or after a refused one in its worker's chain, does not count but may still prove a
  // contradiction.
  const bool late = found == signers_.end() || (receipts.receipts_size() > 0 &&
                                                !was_asked(found->second, receipts.receipts(0)));
  bool taking = !late;
  for (const std::string& bytes : receipts.receipts()) {
    hold_against(node, as_bytes(bytes));
    if (!taking) continue;
    const Status taken = take_receipt(node, found->second, as_bytes(bytes));
    taking = taken.ok();
    if (taking) {
      unreceipted_.receipted(node);
      continue;
    }
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
    signer.is_behind = true;
  }
  for (const Wanted& one : signer.asked) unreceipted_.add(node, one.owner, 1);
  signer.asked.clear();
  signer.most = std::exchange(signer.is_behind, false)
                    ? std::max<std::size_t>(signer.most / 2, kLeastWaiting)
                    : std::min(signer.most + limits::kReceiptsAsked, limits::kReceiptWindows);
  // The node has dropped the oldest windows, or will have by the time of the order.
  while (signer.next.size() > signer.most) unreceipted_.add("", signer.take_oldest().owner, 1);
  ask(node);
}

Status ReceiptCollector::take_receipt(const std::string& node, Signer& signer, ByteSpan bytes) {
  TRY(const ledger::Receipt said, ledger::parse_receipt(bytes, cluster_.public_key()));
  const auto asked = std::ranges::find(signer.asked, said.slot,
                                       [](const Wanted& one) { return one.receipt.slot; });
  REQUIRE(asked != signer.asked.end(), describe(said.slot.request, said.slot.window),
          ": this receipt was not asked for");
  for (auto one = signer.asked.begin(); one != asked; ++one) {
    unreceipted_.add(node, one->owner, 1);
    signer.is_behind = true;  // it is forgotten there
  }
  Wanted wanted = std::move(*asked);
  signer.asked.erase(signer.asked.begin(), asked + 1);
  Status logged = log_receipt(wanted, said, bytes);
  if (!logged.ok()) unreceipted_.add(node, wanted.owner, 1);
  return logged;
}

// It must say what was settled, and may say when that was.
Status ReceiptCollector::log_receipt(Wanted wanted, const ledger::Receipt& said, ByteSpan bytes) {
  ledger::Receipt& expected = wanted.receipt;
  const std::string what = describe(said.slot.request, said.slot.window);
  REQUIRE(said.worker == expected.worker, what, ": it is signed by another key than its node's");
  REQUIRE(!tombstoned_.contains(said.worker), what, ": its worker has lost its standing for good");
  REQUIRE(!barred_.contains(said.worker), what, ": a verdict bars its worker");
  REQUIRE(!newcomers_.contains(said.worker), what, ": its worker is a newcomer");
  remember(bytes);
  REQUIRE(said.program == expected.program, what, ": it names another model or build");
  Hash256& previous = latest(said.worker);
  REQUIRE(said.previous == previous, what, ": it does not follow the worker's latest one");
  expected.previous = said.previous;
  expected.begun_ms = said.begun_ms;
  expected.took_ms = said.took_ms;
  REQUIRE(said == expected, what, ": it differs from the claims of its worker and its neighbours");
  const std::int64_t most = ledger::Policy().audit_seconds;
  const std::int64_t age =
      std::max(time_, clock_.unix_seconds()) - static_cast<std::int64_t>(said.begun_ms / 1'000);
  REQUIRE(age <= most && age >= -most, what, ": it was begun ", age, " seconds ago; the limit is ",
          most);
  ledger::ReceiptEntry entry;
  std::copy(bytes.begin(), bytes.end(), entry.receipt.begin());
  previous = blake2b(bytes);
  if (credits_) {
    entry.payer = credits_->charge(said.slot.request, ledger::payer_price({}, said, wanted.cached));
    entry.cached = wanted.cached;
  }
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

bool ReceiptCollector::is_settled() const {
  return requests_.empty() && std::ranges::all_of(signers_, [](const auto& one) {
           return one.second.next.empty() && one.second.asked.empty();
         });
}

std::set<ledger::RequestId> ReceiptCollector::unsettled() const {
  std::set<ledger::RequestId> found;
  for (const auto& [key, request] : requests_) found.insert(key.first);
  for (const auto& [node, signer] : signers_) {
    for (const Wanted& one : signer.next) found.insert(one.receipt.slot.request);
    for (const Wanted& one : signer.asked) found.insert(one.receipt.slot.request);
  }
  return found;
}

// --- what does not come ---

void ReceiptCollector::lose(const std::string& node) {
  const auto found = signers_.find(node);
  if (found == signers_.end()) return;
  for (const auto* list : {&found->second.next, &found->second.asked}) {
    for (const Wanted& one : *list) unreceipted_.add("", one.owner, 1);
  }
  signers_.erase(found);
}

bool ReceiptCollector::is_asking() const {
  return std::ranges::any_of(signers_, [](const auto& one) { return !one.second.asked.empty(); });
}

// Of a window without all claims, no stage has a receipt, and those are named that claimed nothing.
void ReceiptCollector::expire(const Request& request) {
  const ReceiptPipeline& pipeline = *request.pipeline;
  for (std::uint32_t window = 0; window < windows_of(*request.over); ++window) {
    const auto claims = request.windows.find(window);
    const bool any = claims != request.windows.end();
    if (!any && request.claimed.contains(window)) continue;
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
      const bool is_claimed = any && claims->second[i];
      unreceipted_.add(is_claimed ? "" : pipeline.stages[i].node, request.owner, 1);
      if (is_claimed) continue;
      spdlog::warn("no receipts of {}: {} did not claim it",
                   describe(request.over->order.request, window), describe(pipeline, i));
    }
  }
}

void ReceiptCollector::on_timer() {
  const TimePoint now = clock_.now();
  for (auto one = requests_.begin(); one != requests_.end();) {
    const auto next = std::next(one);
    const Request& request = one->second;
    if (request.over && now - request.over_at >= kPatience) {
      expire(request);
      drop(one);
    }
    one = next;
  }
  while (!idle_.empty() && !requests_.contains(idle_.front())) idle_.pop_front();
  const auto old = std::chrono::seconds(ledger::Policy().audit_seconds);
  while (!seen_order_.empty() && now - seen_.at(seen_order_.front()) > old) {
    seen_.erase(seen_order_.front());
    seen_order_.pop_front();
  }
  std::vector<std::string> silent;
  for (const auto& [node, signer] : signers_) {
    if (!signer.asked.empty() && now - signer.asked_at >= kPatience) silent.push_back(node);
  }
  for (const std::string& node : silent) give_up(node);
  for (auto one = signers_.begin(); one != signers_.end();) {
    Signer& signer = one->second;
    const bool is_idle = signer.asked.empty() && signer.next.empty();
    if (is_idle) signer.most += limits::kReceiptsAsked;
    one = is_idle && signer.most >= limits::kReceiptWindows ? signers_.erase(one) : std::next(one);
  }
}

}  // namespace hearth::coordinator

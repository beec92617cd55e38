#include "ledger/books.h"

#include <algorithm>
#include <tuple>

namespace hearth::ledger {
namespace {

Account spendable(const PublicKey& key) { return {Account::Kind::kSpendable, key}; }
Account escrow(const PublicKey& key) { return {Account::Kind::kEscrow, key}; }
const Account kTreasury{};

}  // namespace

std::int64_t window_price(const Policy& policy, const Receipt& receipt, std::uint32_t cached) {
  const std::int64_t found = std::min(cached, receipt.prompt_positions);
  const std::int64_t prompt = receipt.prompt_positions - found;
  const std::int64_t generated = receipt.positions - receipt.prompt_positions;
  const std::int64_t layers = receipt.layers();
  return layers * (prompt * policy.price_prefill + generated * policy.price_decode) +
         layers * found * policy.price_prefill * policy.price_cached / kMillion;
}

std::int64_t payer_price(const Policy& policy, const Receipt& receipt, std::uint32_t cached) {
  const std::int64_t pay = window_price(policy, receipt, cached);
  return pay + pay * policy.price_fee / kMillion;
}

std::int64_t check_price(const Policy& policy, const Receipt& receipt, std::int64_t price) {
  const std::int64_t prefill =
      std::int64_t{receipt.layers()} * receipt.positions * policy.price_prefill;
  if (policy.assumed_collusion == 0) return prefill;
  // A client that buys from itself pays the fee. The cap keeps what colluding auditors earn back
  // below that fee.
  const std::int64_t most = price * policy.price_fee / policy.assumed_collusion;
  return std::min(prefill, most);
}

const Standing* Books::standing(const PublicKey& key) const {
  const auto found = members_.find(key);
  return found == members_.end() ? nullptr : &found->second.standing;
}

std::vector<PublicKey> Books::keys() const {
  std::vector<PublicKey> keys;
  for (const auto& [key, one] : members_) keys.push_back(key);
  return keys;
}

const Receipt* Books::receipt(std::uint64_t entry) const {
  const auto found = windows_.find(entry);
  return found == windows_.end() ? nullptr : &found->second.receipt;
}

std::int64_t Books::balance(const Account& account) const {
  const auto found = balances_.find(account);
  return found == balances_.end() ? 0 : found->second;
}

std::vector<std::uint64_t> Books::disputes() const {
  std::vector<std::uint64_t> open;
  for (const auto& [entry, window] : windows_) {
    if (window.is_in_dispute()) open.push_back(entry);
  }
  return open;
}

std::vector<PublicKey> Books::doubters(std::uint64_t entry) const {
  const auto found = windows_.find(entry);
  if (found == windows_.end()) return {};
  return {found->second.disagree.begin(), found->second.disagree.end()};
}

std::uint64_t Books::unjudged(const PublicKey& key) const {
  const auto found = members_.find(key);
  return found == members_.end() ? 0 : found->second.unjudged;
}

std::set<RequestId> Books::paid() const {
  std::set<RequestId> requests;
  for (const auto& [entry, window] : windows_) {
    if (window.pay > 0) requests.insert(window.receipt.slot.request);
  }
  return requests;
}

std::optional<Hash256> Books::owner(const PublicKey& key) const {
  const auto found = members_.find(key);
  return found == members_.end() ? std::nullopt : std::optional(found->second.owner);
}

Hash256 Books::latest(const PublicKey& key) const {
  const auto found = members_.find(key);
  return found == members_.end() ? Hash256() : found->second.latest;
}

std::vector<std::uint64_t> Books::refereed(std::int64_t rate) const {
  std::vector<std::uint64_t> found;
  for (const auto& [entry, first] : shared_) {
    if (draw_->selects_referee(first, rate)) found.push_back(entry);
  }
  return found;
}

Hash256 Books::hash() const {
  Bytes all;
  ByteWriter writer(all);
  writer.append(policy_hash(policy_).bytes);
  writer.write(entries_);
  for (const auto& [key, one] : members_) {
    writer.append(key.bytes());
    writer.append(one.owner.bytes);
    writer.append(one.latest.bytes);
    writer.append(one.standing.hash().bytes);
  }
  for (const auto& [account, amount] : balances_) {
    writer.write(static_cast<std::uint8_t>(account.kind));
    writer.append(account.key.bytes());
    writer.write(amount);
  }
  for (const std::uint64_t entry : disputes()) writer.write(entry);
  return blake2b(all);
}

Result<Books::Member*> Books::member(const PublicKey& key) {
  const auto found = members_.find(key);
  REQUIRE(found != members_.end(), "key ", key.hex(), " is not a member's");
  REQUIRE(!found->second.standing.is_tombstoned(), "key ", key.hex(),
          " has lost its standing for good");
  return &found->second;
}

Result<Books::Window*> Books::window(std::uint64_t entry) {
  const auto found = windows_.find(entry);
  REQUIRE(found != windows_.end(), "entry ", entry, " is not a receipt that can be audited now");
  return &found->second;
}

Status Books::post(std::vector<Posting> postings) {
  std::int64_t sum = 0;
  for (const Posting& one : postings) {
    std::int64_t& balance = balances_[one.account];
    REQUIRE(!__builtin_add_overflow(balance, one.amount, &balance) &&
                !__builtin_add_overflow(sum, one.amount, &sum),
            "an account's balance overflows 64 bits");
    REQUIRE(balance >= 0 || one.account == kTreasury, "an account of ", one.account.key.hex(),
            " falls to ", balance);
  }
  INVARIANT(sum == 0, "what an entry moves sums to zero");
  postings_.insert(postings_.end(), postings.begin(), postings.end());
  return ok_status();
}

Status Books::apply(ByteSpan bytes, const Hash256& leaf) {
  TRY(const Entry entry, parse_entry(bytes));
  REQUIRE(entry.time >= time_ && entry.time < std::int64_t{1} << 40, "the entry's time ",
          entry.time, " is before its predecessor's, ", time_);
  const bool is_rules = std::holds_alternative<RulesEntry>(entry.body);
  REQUIRE(is_rules == (entries_ == 0), "a ledger begins with its rules and has them once");
  time_ = entry.time;
  postings_.clear();
  forget_old_windows();
  TRY_VOID(std::visit([this](const auto& body) { return apply(body); }, entry.body));
  ++entries_;
  return edge_.push(leaf, [](const Tile&, std::span<const Hash256>) { return ok_status(); });
}

void Books::forget_old_windows() {
  // Entries are in the order of their times; one in dispute stays until its verdict.
  for (auto at = windows_.begin(); at != windows_.end();) {
    if (time_ - at->second.time <= policy_.audit_seconds) break;
    at = at->second.is_in_dispute() ? std::next(at) : forget(at);
  }
}

void Books::forget_windows(std::size_t most, const std::function<bool(std::uint64_t entry)>& keep) {
  for (auto at = windows_.begin(); at != windows_.end() && windows_.size() > most;) {
    at = at->second.is_in_dispute() || keep(at->first) ? std::next(at) : forget(at);
  }
}

Books::Windows::iterator Books::forget(Windows::iterator at) {
  const Window& window = at->second;
  const bool is_first = !slots_.empty() && slots_.begin()->first == window.receipt.slot;
  if (is_first) slots_.erase(slots_.begin());
  if (!is_first) slots_.erase(window.receipt.slot);
  if (window.is_selected && !window.is_audited) ++audits_.missed;
  if (window.is_refereed && !window.opened.contains(cluster_)) ++audits_.referee_missed;
  return windows_.erase(at);
}

Status Books::apply(const RulesEntry& entry) {
  REQUIRE(entry.policy == policy_hash(policy_),
          "the ledger is kept by other rules than this program's: ", entry.policy.hex());
  cluster_ = entry.cluster;
  return ok_status();
}

Status Books::apply(const MemberEntry& entry) {
  REQUIRE(!members_.contains(entry.key), "key ", entry.key.hex(), " is already a member's");
  members_.emplace(entry.key, Member{entry.owner, {}, Standing(time_, entry.is_vouched)});
  return ok_status();
}

Status Books::apply(const ChangeEntry& entry) {
  TRY(Member* const changed, member(entry.key));
  changed->standing.change(time_);
  return ok_status();
}

Status Books::apply(const GrantEntry& entry) {
  REQUIRE(entry.amount > 0 && entry.amount <= kGrantMax, "a grant of ", entry.amount,
          "; it is from 1 to ", kGrantMax);
  return post({{kTreasury, -entry.amount}, {spendable(entry.to), entry.amount}});
}

// Checks the receipt against those of its neighbours that the log already has.
Status Books::check_edges(const Receipt& receipt) const {
  const auto neighbour = [&](int step) -> const Receipt* {
    Slot slot = receipt.slot;
    slot.stage = static_cast<std::uint16_t>(slot.stage + step);
    const auto found = slots_.find(slot);
    return found == slots_.end() ? nullptr : &windows_.at(found->second).receipt;
  };
  if (receipt.is_first()) {
    REQUIRE(check_edge(in_edge(receipt), cluster_, cluster_, receipt.in_edge),
            "the edge to the first stage is not signed by the cluster");
  } else if (const Receipt* upper = neighbour(-1)) {
    TRY_VOID(check_neighbours(*upper, receipt, cluster_));
  }
  if (receipt.is_last()) {
    REQUIRE(check_edge(out_edge(receipt), cluster_, cluster_, receipt.out_edge),
            "the edge from the last stage is not signed by the cluster");
  } else if (const Receipt* lower = neighbour(1)) {
    TRY_VOID(check_neighbours(receipt, *lower, cluster_));
  }
  return ok_status();
}

// Checks the window against the adjacent windows of the same stage and request; `slot` is its own.
Status Books::check_place(Slots::const_iterator slot, const Receipt& receipt) const {
  const auto is_beside = [&](Slots::const_iterator other) {
    return std::tie(other->first.request, other->first.epoch, other->first.stage) ==
           std::tie(receipt.slot.request, receipt.slot.epoch, receipt.slot.stage);
  };
  if (slot != slots_.begin() && is_beside(std::prev(slot))) {
    TRY_VOID(check_windows(windows_.at(std::prev(slot)->second).receipt, receipt));
  }
  if (std::next(slot) != slots_.end() && is_beside(std::next(slot))) {
    TRY_VOID(check_windows(receipt, windows_.at(std::next(slot)->second).receipt));
  }
  return ok_status();
}

Status Books::apply(const ReceiptEntry& entry) {
  const bool trusted = signatures_ == EntrySignatures::kTrusted;
  TRY(const Receipt receipt,
      trusted ? reread_receipt(entry.receipt) : parse_receipt(entry.receipt, cluster_));
  TRY(Member* const worker, member(receipt.worker));
  REQUIRE(worker->standing.level(policy_, time_) != Level::kNewcomer, "key ", receipt.worker.hex(),
          " is a newcomer's, and a newcomer may not serve");
  // Requests are named by their time, so the place is near the end.
  const std::size_t slots = slots_.size();
  const auto slot = slots_.emplace_hint(slots_.end(), receipt.slot, entries_);
  REQUIRE(slots_.size() > slots, "the receipt's slot has one already, entry ", slot->second);
  TRY_VOID(check_place(slot, receipt));
  REQUIRE(receipt.previous == worker->latest,
          "the receipt does not follow its worker's latest one: one is missing, or this is an old "
          "one again");
  const auto begun = static_cast<std::int64_t>(receipt.begun_ms / 1'000);
  REQUIRE(begun >= time_ - policy_.audit_seconds && begun <= time_ + policy_.audit_seconds,
          "the receipt says that it was begun at ", begun, ", but is logged at ", time_);
  if (!trusted) TRY_VOID(check_edges(receipt));
  const bool is_paid = entry.payer != PublicKey();
  REQUIRE(entry.cached <= receipt.prompt_positions, "the receipt counts ", entry.cached,
          " cached positions in a window with ", receipt.prompt_positions, " prompt positions");
  const std::int64_t pay = is_paid ? window_price(policy_, receipt, entry.cached) : 0;
  const std::int64_t fee = pay * policy_.price_fee / kMillion;
  if (is_paid) {
    TRY_VOID(post(
        {{spendable(entry.payer), -pay - fee}, {escrow(receipt.worker), pay}, {kTreasury, fee}}));
  }
  worker->standing.serve(pay, time_);
  worker->latest = blake2b(entry.receipt);
  const bool first_use = worker->programs.insert(receipt.program).second;
  windows_.emplace_hint(windows_.end(), entries_,
                        Window{receipt, pay, time_, {}, {}, {}, false, first_use});
  return ok_status();
}

Status Books::apply(const SealEntry& entry) {
  TRY(Window* const audited, window(entry.receipt));
  TRY(Member* const auditor, member(entry.auditor));
  REQUIRE(signatures_ == EntrySignatures::kTrusted || check_seal(entry, cluster_),
          "a seal's signature is not its auditor's");
  REQUIRE(auditor->owner != members_.at(audited->receipt.worker).owner,
          "a window is audited by its own owner");
  // All seals come before the first opening, so that an auditor cannot copy another's result.
  REQUIRE(audited->opened.empty(), "a seal comes after an opening");
  REQUIRE(audited->seals.emplace(entry.auditor, entry.seal).second,
          "an auditor seals one window twice");
  return ok_status();
}

Status Books::apply(const OpeningEntry& entry) {
  TRY(Window* const audited, window(entry.receipt));
  TRY(Member* const auditor, member(entry.auditor));
  const auto seal = audited->seals.find(entry.auditor);
  REQUIRE(seal != audited->seals.end(), "an opening has no seal");
  REQUIRE(seal->second == seal_of(entry.receipt, entry.auditor, entry.root, entry.salt),
          "an opening differs from its seal");
  REQUIRE(audited->opened.insert(entry.auditor).second, "a seal is opened twice");
  if (entry.root != audited->receipt.out_root) {
    audited->disagree.insert(entry.auditor);
    audited->is_audited = true;  // the referee will decide
    ++audits_.disagreed;
    return ok_status();
  }
  ++audits_.agreed;
  // A newcomer's agreement counts for the newcomer only.
  if (auditor->standing.level(policy_, time_) != Level::kNewcomer) {
    members_.at(audited->receipt.worker).standing.was_right();
    audited->is_audited = true;
  }
  // An audit of an unpaid window is unpaid too.
  const std::int64_t pay =
      audited->pay > 0 ? check_price(policy_, audited->receipt, audited->pay) : 0;
  if (pay > 0) TRY_VOID(post({{kTreasury, -pay}, {escrow(entry.auditor), pay}}));
  auditor->standing.check(policy_, pay, time_);
  return ok_status();
}

Status Books::apply(const VerdictEntry& entry) {
  TRY(Window* const disputed, window(entry.receipt));
  REQUIRE(disputed->is_in_dispute(), "a verdict on entry ", entry.receipt,
          ", where nothing is in dispute");
  if (entry.verdict == Verdict::kUnjudged) {
    disputed->is_settled = true;
    ++audits_.unjudged;
    ++members_.at(disputed->receipt.worker).unjudged;
    for (const PublicKey& auditor : disputed->disagree) ++members_.at(auditor).unjudged;
    return ok_status();
  }
  const bool is_party =
      entry.guilty == disputed->receipt.worker || disputed->disagree.contains(entry.guilty);
  REQUIRE(is_party, "the verdict's guilty key is not a party of the dispute");
  // A banned key has nothing left to seize; the verdict only ends the dispute.
  Standing& guilty = members_.at(entry.guilty).standing;
  disputed->is_settled = true;
  if (guilty.is_tombstoned()) return ok_status();
  const std::int64_t cost = entry.verdict == Verdict::kFraud
                                ? guilty.seize()
                                : guilty.fault(policy_, disputed->pay, time_);
  return post({{escrow(entry.guilty), -cost}, {kTreasury, cost}});
}

// Selects among all windows since the previous draw, each at its worker's present rate. The stages
// of a window share one number, because recomputing a window for one stage recomputes it for all.
Status Books::apply(const DrawEntry& entry) {
  draw_ = signatures_ == EntrySignatures::kTrusted
              ? Draw::reopen(entry.proof)
              : Draw::open(draw_message(entries_, root(), cluster_), cluster_, entry.proof);
  REQUIRE(draw_, "a draw's proof is not the cluster's over the checkpoint of the ", entries_,
          " entries before it");
  selected_.clear();
  shared_.clear();
  std::map<Slot, std::uint64_t> firsts;  // first entry by the slot of stage 0
  for (auto at = windows_.lower_bound(drawn_); at != windows_.end(); ++at) {
    auto& [number, window] = *at;
    const Standing& worker = members_.at(window.receipt.worker).standing;
    Slot slot = window.receipt.slot;
    slot.stage = 0;
    const std::uint64_t first = firsts.emplace(slot, number).first->second;
    shared_.emplace_back(number, first);
    window.is_refereed = draw_->selects_referee(first, policy_.coordinator_rate);
    audits_.refereed += window.is_refereed ? 1 : 0;
    const std::int64_t rate = worker.audit_rate(policy_, time_, window.is_first_use, window.pay);
    if (!draw_->selects(first, rate)) continue;
    window.is_selected = true;
    selected_.push_back(number);
  }
  ++audits_.draws;
  audits_.selected += selected_.size();
  drawn_ = entries_;
  return ok_status();
}

Status Books::apply(const EquivocationEntry& entry) {
  TRY(const Receipt one, parse_receipt(entry.one, cluster_));
  TRY(const Receipt other, parse_receipt(entry.other, cluster_));
  REQUIRE(is_equivocation(one, other), "two receipts do not contradict each other");
  TRY(Member* const guilty, member(one.worker));
  const std::int64_t cost = guilty->standing.seize();
  return post({{escrow(one.worker), -cost}, {kTreasury, cost}});
}

std::optional<std::uint64_t> Books::dispute_of(const PublicKey& key) const {
  for (const auto& [number, disputed] : windows_) {
    const bool is_party = disputed.receipt.worker == key || disputed.disagree.contains(key);
    if (is_party && disputed.is_in_dispute()) return number;
  }
  return std::nullopt;
}

std::int64_t Books::ripe(const PublicKey& key, std::int64_t now) const {
  const Standing* const owner = standing(key);
  const std::int64_t freed = owner == nullptr ? 0 : owner->ripe(policy_, std::max(now, time_));
  return freed == 0 || dispute_of(key) ? 0 : freed;
}

Status Books::apply(const VestEntry& entry) {
  TRY(Member* const owner, member(entry.key));
  if (const auto disputed = dispute_of(entry.key)) {
    return Error::invalid("escrow is released while entry ", *disputed, " is in dispute");
  }
  const std::int64_t freed = owner->standing.vest(policy_, time_);
  return post({{escrow(entry.key), -freed}, {spendable(entry.key), freed}});
}

}  // namespace hearth::ledger

#include "ledger/history.h"

#include <algorithm>
#include <optional>

namespace hearth::ledger {
namespace {

using Kind = Event::Kind;
using Found = std::optional<Kind>;

constexpr std::int64_t kDay = 24 * 3'600;

// The event that an entry, just applied by the books, means for a key, if any.
struct Meaning {
  const PublicKey& key;
  const Books& books;

  Found operator()(const RulesEntry&) const { return {}; }
  Found operator()(const SealEntry&) const { return {}; }
  Found operator()(const DrawEntry&) const { return {}; }
  Found operator()(const MemberEntry& e) const {
    return of(e.key, e.is_vouched ? Kind::kVouched : Kind::kJoined);
  }
  Found operator()(const ChangeEntry& e) const { return of(e.key, Kind::kChanged); }
  Found operator()(const GrantEntry& e) const { return of(e.to, Kind::kGranted); }
  Found operator()(const VestEntry& e) const { return of(e.key, Kind::kVested); }
  Found operator()(const VerdictEntry& e) const {
    if (e.verdict == Verdict::kUnjudged) return unjudged(e.receipt);
    return of(e.guilty, e.verdict == Verdict::kFraud ? Kind::kFraud : Kind::kFault);
  }
  Found operator()(const ReceiptEntry& e) const {
    if (std::ranges::equal(worker_in(e.receipt).bytes, key.bytes())) return Kind::kServed;
    return of(e.payer, Kind::kPaid);
  }
  Found operator()(const OpeningEntry& e) const {
    const Receipt* receipt = books.receipt(e.receipt);
    if (receipt == nullptr) return {};
    const bool agrees = e.root == receipt->out_root;
    if (e.auditor == key) return agrees ? Kind::kChecked : Kind::kDisagreed;
    return of(receipt->worker, agrees ? Kind::kWasRight : Kind::kWasDoubted);
  }
  Found operator()(const EquivocationEntry& e) const {
    const bool own = std::ranges::equal(worker_in(e.one).bytes, key.bytes());
    return own ? Found(Kind::kEquivocation) : Found();
  }

  Found unjudged(std::uint64_t disputed) const {
    const Receipt* receipt = books.receipt(disputed);
    const std::vector<PublicKey> doubters = books.doubters(disputed);
    const bool is_party =
        receipt != nullptr && (receipt->worker == key || std::ranges::count(doubters, key) > 0);
    return is_party ? Found(Kind::kUnjudged) : Found();
  }
  Found of(const PublicKey& whose, Kind kind) const { return whose == key ? Found(kind) : Found(); }
};

std::int64_t gained(const PublicKey& key, Kind kind, const Books& books) {
  std::int64_t sum = 0;
  for (const Posting& one : books.postings()) {
    const bool counts = one.account.kind == Account::Kind::kSpendable ||
                        (one.account.kind == Account::Kind::kEscrow && kind != Kind::kVested);
    if (counts && one.account.key == key) sum += one.amount;
  }
  return sum;
}

}  // namespace

std::string_view event_name(Event::Kind kind) {
  constexpr std::string_view kNames[] = {"joined",       "vouched",     "changed", "granted",
                                         "paid",         "served",      "checked", "disagreed",
                                         "was_right",    "was_doubted", "fault",   "fraud",
                                         "equivocation", "vested",      "unjudged"};
  return kNames[static_cast<std::size_t>(kind)];
}

void History::add(std::uint64_t index, const Entry& entry, const Books& books) {
  const Found kind = std::visit(Meaning{key_, books}, entry.body);
  if (!kind) return;
  const std::int64_t credits = gained(key_, *kind, books);
  if (!events_.empty()) {
    Event& last = events_.back();
    if (last.kind == *kind && last.time / kDay == entry.time / kDay) {
      ++last.count;
      last.credits += credits;
      return;
    }
  }
  events_.push_back({*kind, entry.time, index, 1, credits});
  if (events_.size() <= kMost) return;
  events_.pop_front();
  ++forgotten_;
}

}  // namespace hearth::ledger

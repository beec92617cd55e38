// The books of a ledger: standings and balances as a pure fold over the entries of its log. Whoever
// folds the same entries by the same rules comes to the same state, byte for byte (hash()), and
// whoever finds an entry that the rules do not allow has found a log that is not sound.
//
// Double entry: every entry moves credit between accounts or moves none, and what it moves sums to
// zero. The treasury alone may fall below zero: by that much credit is in circulation.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ledger/entry.h"
#include "ledger/policy.h"
#include "ledger/scan.h"
#include "ledger/selection.h"
#include "ledger/standing.h"

namespace hearth::ledger {

struct Account {
  enum class Kind : std::uint8_t { kTreasury, kSpendable, kEscrow };
  Kind kind = Kind::kTreasury;
  PublicKey key;  // nobody's for the treasury
  friend auto operator<=>(const Account&, const Account&) = default;
};

struct Posting {
  Account account;
  std::int64_t amount = 0;
};

inline constexpr std::int64_t kGrantMax = std::int64_t{1} << 53;

// The price of a window for who pays it, without the fee.
std::int64_t window_price(const Policy& policy, const Receipt& receipt);
// And with it.
std::int64_t payer_price(const Policy& policy, const Receipt& receipt);
// Of checking it: one prefill of its layers and positions, and no more than work for oneself can
// bear: `price_fee` of the window's price, in `assumed_collusion` of all checks.
std::int64_t check_price(const Policy& policy, const Receipt& receipt);

// What became of the windows that draws selected, and of those that were audited besides.
struct AuditCounts {
  std::uint64_t draws = 0;
  std::uint64_t selected = 0;   // windows
  std::uint64_t agreed = 0;     // openings
  std::uint64_t disagreed = 0;  // openings
  // Selected, and while that was possible nobody but newcomers opened an audit of it, who agreed.
  std::uint64_t missed = 0;
  // Windows that draws gave to the coordinator's own referee, and those of them that the log's own
  // key opened no audit of.
  std::uint64_t refereed = 0;
  std::uint64_t referee_missed = 0;
  std::uint64_t unjudged = 0;  // disputes that ended without anybody being found wrong
};

// kTrusted: of whoever checked all signatures before, for its own use; every other rule is checked.
enum class EntrySignatures { kChecked, kTrusted };

class Books {
 public:
  explicit Books(const Policy& policy = {}, EntrySignatures signatures = EntrySignatures::kChecked)
      : policy_(policy), signatures_(signatures) {}

  // The next entry of the log. kInvalidInput names the rule that it breaks; the books are then of
  // no use any more.
  Status apply(ByteSpan entry) { return apply(entry, leaf_hash(entry)); }
  Status apply(ByteSpan entry, const Hash256& leaf);  // its leaf_hash(), where that is known

  const PublicKey& cluster() const { return cluster_; }  // nobody's before the first entry
  std::uint64_t entries() const { return entries_; }
  std::int64_t time() const { return time_; }  // of the latest entry
  const Policy& policy() const { return policy_; }
  std::size_t members() const { return members_.size(); }
  std::vector<PublicKey> keys() const;  // of all members, in order
  // The receipt of an entry, while it may be audited or is in dispute; else null.
  const Receipt* receipt(std::uint64_t entry) const;
  const Standing* standing(const PublicKey& key) const;  // nothing for who is no member
  std::int64_t balance(const Account& account) const;
  const std::map<Account, std::int64_t>& balances() const { return balances_; }
  // What a VestEntry of that time would set free of this member's escrow; 0: nothing, or it would
  // be refused.
  std::int64_t ripe(const PublicKey& key, std::int64_t now) const;
  // What the latest entry moved; sums to zero.
  const std::vector<Posting>& postings() const { return postings_; }
  // Windows whose audits disagree and that no verdict has ended yet, by their entries.
  std::vector<std::uint64_t> disputes() const;
  // Auditors whose openings of this entry disagree; none for what may not be audited any more.
  std::vector<PublicKey> doubters(std::uint64_t entry) const;
  // Disputes that it was a party of and that ended unjudged.
  std::uint64_t unjudged(const PublicKey& key) const;
  // Requests of which somebody has paid for a window that may be audited, or is in dispute.
  std::set<RequestId> paid() const;
  // Who answers for a member; nothing for who is none.
  std::optional<Hash256> owner(const PublicKey& key) const;
  // The latest draw, and the windows that it selected, by their entries.
  const std::optional<Draw>& draw() const { return draw_; }
  const std::vector<std::uint64_t>& selected() const { return selected_; }
  // Those that it gives to the coordinator's own referee at this rate; the policy has the least.
  std::vector<std::uint64_t> refereed(std::int64_t rate) const;
  std::size_t windows() const { return windows_.size(); }  // that may be audited, or are in dispute
  std::uint64_t drawn() const { return drawn_; }           // entries before this one had their draw
  const AuditCounts& audits() const { return audits_; }
  // Of all entries so far: what the checkpoint says, and the next draw is over.
  Hash256 root() const { return edge_.root(); }
  Hash256 hash() const;

 private:
  struct Member {
    Hash256 owner;
    Hash256 latest;  // of its receipts: BLAKE2b, zeros before the first
    Standing standing;
    std::set<Hash256> programs = {};  // of its receipts
    std::uint64_t unjudged = 0;
  };
  struct Window {
    Receipt receipt;
    std::int64_t pay = 0;
    std::int64_t time = 0;
    std::map<PublicKey, Hash256> seals;
    std::set<PublicKey> opened;
    std::set<PublicKey> disagree;
    bool is_settled = false;    // by a verdict
    bool is_first_use = false;  // of its program, by its worker
    bool is_selected = false;
    bool is_refereed = false;
    bool is_audited = false;  // by somebody whose word counts: a newcomer's agreement does not
  };

  Status apply(const RulesEntry& entry);
  Status apply(const MemberEntry& entry);
  Status apply(const ChangeEntry& entry);
  Status apply(const GrantEntry& entry);
  Status apply(const ReceiptEntry& entry);
  Status apply(const SealEntry& entry);
  Status apply(const OpeningEntry& entry);
  Status apply(const VerdictEntry& entry);
  Status apply(const EquivocationEntry& entry);
  Status apply(const VestEntry& entry);
  Status apply(const DrawEntry& entry);

  Status post(std::vector<Posting> postings);
  using Slots = std::map<Slot, std::uint64_t>;
  Status check_edges(const Receipt& receipt) const;
  Status check_place(Slots::const_iterator slot, const Receipt& receipt) const;
  Result<Member*> member(const PublicKey& key);
  // A window in dispute whose worker it is, or which it contradicts; nothing: there is none.
  std::optional<std::uint64_t> dispute_of(const PublicKey& key) const;
  Result<Window*> window(std::uint64_t entry);
  void forget_old_windows();

  Policy policy_;
  EntrySignatures signatures_;
  PublicKey cluster_;
  std::uint64_t entries_ = 0;
  std::int64_t time_ = 0;
  std::map<PublicKey, Member> members_;
  std::map<Account, std::int64_t> balances_;
  std::map<std::uint64_t, Window> windows_;  // within the audit window, or in dispute
  Slots slots_;                              // of those
  std::vector<Posting> postings_;
  TreeEdge edge_;
  std::optional<Draw> draw_;
  std::uint64_t drawn_ = 0;
  std::vector<std::uint64_t> selected_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> shared_;  // of the draw: entry, its number's
  AuditCounts audits_;
};

}  // namespace hearth::ledger

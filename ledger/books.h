// Books: standings and balances as a pure fold over the entries of a log. The same entries and
// rules give the same state, byte for byte (hash()). An entry that breaks a rule shows that the log
// is not sound.
//
// Double entry: the postings of an entry sum to zero. Only the treasury may fall below zero; its
// negative balance is the credit in circulation. One thread.
#pragma once

#include <compare>
#include <functional>
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
  PublicKey key;  // zeros for the treasury
  friend auto operator<=>(const Account&, const Account&) = default;
};

struct Posting {
  Account account;
  std::int64_t amount = 0;
};

inline constexpr std::int64_t kGrantMax = std::int64_t{1} << 53;

// The price of a window without the fee, in credits. `cached`: of its prompt positions.
std::int64_t window_price(const Policy& policy, const Receipt& receipt, std::uint32_t cached = 0);
// The price of a window with the fee: what its payer pays.
std::int64_t payer_price(const Policy& policy, const Receipt& receipt, std::uint32_t cached = 0);
// What an agreeing audit of a window earns: the price of one prefill of its layers and positions.
// It is capped at the window's `price` times `price_fee` / `assumed_collusion`, so that auditing
// one's own windows brings no profit.
std::int64_t check_price(const Policy& policy, const Receipt& receipt, std::int64_t price);

// Counts of audits over the whole log.
struct AuditCounts {
  std::uint64_t draws = 0;
  std::uint64_t selected = 0;   // windows
  std::uint64_t agreed = 0;     // openings
  std::uint64_t disagreed = 0;  // openings
  // Selected windows without an opening in time; a newcomer's agreement does not count.
  std::uint64_t missed = 0;
  // Windows that draws gave to the coordinator's referee, and those without an opening by the log's
  // own key.
  std::uint64_t refereed = 0;
  std::uint64_t referee_missed = 0;
  std::uint64_t unjudged = 0;  // disputes that ended without a verdict
};

// kTrusted: the caller has checked all signatures and draws' proofs before. Every other rule is
// still checked.
enum class EntrySignatures { kChecked, kTrusted };

class BooksState;

class Books {
 public:
  explicit Books(const Policy& policy = {}, EntrySignatures signatures = EntrySignatures::kChecked)
      : policy_(policy), signatures_(signatures) {}

  // Applies the next entry of the log. kInvalidInput names the rule that it breaks; after an error
  // the books must not be used.
  Status apply(ByteSpan entry) { return apply(entry, leaf_hash(entry)); }
  Status apply(ByteSpan entry, const Hash256& leaf);  // `leaf`: leaf_hash(entry)

  const PublicKey& cluster() const { return cluster_; }  // zeros before the first entry
  std::uint64_t entries() const { return entries_; }
  std::int64_t time() const { return time_; }  // of the latest entry
  const Policy& policy() const { return policy_; }
  std::size_t members() const { return members_.size(); }
  std::vector<PublicKey> keys() const;  // of all members, in order
  // The receipt in this entry while it can be audited or is in dispute, else null.
  const Receipt* receipt(std::uint64_t entry) const;
  const Standing* standing(const PublicKey& key) const;  // null: not a member
  std::int64_t balance(const Account& account) const;
  const std::map<Account, std::int64_t>& balances() const { return balances_; }
  // The amount that a VestEntry at time `now` would move out of this member's escrow. 0 when such
  // an entry would be refused.
  std::int64_t ripe(const PublicKey& key, std::int64_t now) const;
  // The postings of the latest entry; they sum to zero.
  const std::vector<Posting>& postings() const { return postings_; }
  // Entries of the windows in dispute: an audit disagrees, and no verdict has ended it.
  std::vector<std::uint64_t> disputes() const;
  // Auditors whose openings of this entry disagree; empty when it can no longer be audited.
  std::vector<PublicKey> doubters(std::uint64_t entry) const;
  // Disputes of which this key was a party and that ended without a verdict.
  std::uint64_t unjudged(const PublicKey& key) const;
  // Requests with a paid window that can be audited or is in dispute.
  std::set<RequestId> paid() const;
  // BLAKE2b of a member's latest receipt; zeros when it has none or the key is not a member.
  Hash256 latest(const PublicKey& key) const;
  // The owner's hash of a member; nothing when the key is not a member.
  std::optional<Hash256> owner(const PublicKey& key) const;
  // The latest draw, and the entries of the windows that it selected.
  const std::optional<Draw>& draw() const { return draw_; }
  const std::vector<std::uint64_t>& selected() const { return selected_; }
  // Entries that the draw gives to the coordinator's referee at `rate`, in parts of a million. The
  // policy's coordinator_rate is the minimum.
  std::vector<std::uint64_t> refereed(std::int64_t rate) const;
  std::size_t windows() const { return windows_.size(); }  // auditable or in dispute
  // For a reader whose memory is bounded, and that applies no seal of what it forgets: forgets the
  // oldest windows until `most` are left, but those in dispute and those to `keep`.
  void forget_windows(std::size_t most, const std::function<bool(std::uint64_t entry)>& keep);
  std::uint64_t drawn() const { return drawn_; }  // entries before this one were drawn
  const AuditCounts& audits() const { return audits_; }
  // The Merkle root of all entries so far, which the checkpoint states and the next draw uses.
  Hash256 root() const { return edge_.root(); }
  Hash256 hash() const;

 private:
  friend class BooksState;  // writes and reads all of it

  struct Member {
    Hash256 owner;
    Hash256 latest;  // BLAKE2b of its latest receipt; zeros before the first
    Standing standing;
    std::set<Hash256> programs = {};  // that its receipts name
    std::uint64_t unjudged = 0;
  };
  struct Window {
    Receipt receipt;
    std::int64_t pay = 0;
    std::int64_t time = 0;
    std::map<PublicKey, Hash256> seals;
    std::set<PublicKey> opened;
    std::set<PublicKey> disagree;
    bool is_settled = false;    // a verdict ended its dispute
    bool is_first_use = false;  // the worker's first receipt with this program
    bool is_selected = false;
    bool is_refereed = false;
    bool is_audited = false;  // a newcomer's agreement does not set it

    bool is_in_dispute() const { return !disagree.empty() && !is_settled; }
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
  // The entry of a window in dispute of which this key is a party, if one exists.
  std::optional<std::uint64_t> dispute_of(const PublicKey& key) const;
  Result<Window*> window(std::uint64_t entry);
  void forget_old_windows();
  using Windows = std::map<std::uint64_t, Window>;
  Windows::iterator forget(Windows::iterator at);

  Policy policy_;
  EntrySignatures signatures_;
  PublicKey cluster_;
  std::uint64_t entries_ = 0;
  std::int64_t time_ = 0;
  std::map<PublicKey, Member> members_;
  std::map<Account, std::int64_t> balances_;
  Windows windows_;  // auditable or in dispute, by entry
  Slots slots_;      // of these windows
  std::vector<Posting> postings_;
  TreeEdge edge_;
  std::optional<Draw> draw_;
  std::uint64_t drawn_ = 0;
  std::vector<std::uint64_t> selected_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> shared_;  // of the draw: entry, number
  AuditCounts audits_;
};

}  // namespace hearth::ledger

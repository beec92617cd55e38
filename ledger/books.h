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

// The price of a window for who pays it, without the fee.
std::int64_t window_price(const Policy& policy, const Receipt& receipt);
// Of checking it: one prefill of its layers and positions.
std::int64_t check_price(const Policy& policy, const Receipt& receipt);

// What became of the windows that draws selected, and of those that were audited besides.
struct AuditCounts {
  std::uint64_t draws = 0;
  std::uint64_t selected = 0;   // windows
  std::uint64_t agreed = 0;     // openings
  std::uint64_t disagreed = 0;  // openings
  // Selected, and while that was possible nobody but newcomers opened an audit of it, who agreed.
  std::uint64_t missed = 0;
};

// kTrusted: of whoever checked all signatures before, for its own use; every other rule is checked.
enum class EntrySignatures { kChecked, kTrusted };

class Books {
 public:
  explicit Books(const Policy& policy = {}, EntrySignatures signatures = EntrySignatures::kChecked)
      : policy_(policy), signatures_(signatures) {}

  // The next entry of the log. kInvalidInput names the rule that it breaks; the books are then of
  // no use any more.
  Status apply(ByteSpan entry);

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
  // What the latest entry moved; sums to zero.
  const std::vector<Posting>& postings() const { return postings_; }
  // Windows whose audits disagree and that no verdict has ended yet, by their entries.
  std::vector<std::uint64_t> disputes() const;
  // The latest draw, and the windows that it selected, by their entries.
  const std::optional<Draw>& draw() const { return draw_; }
  const std::vector<std::uint64_t>& selected() const { return selected_; }
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
  Status check_edges(const Receipt& receipt) const;
  Result<Member*> member(const PublicKey& key);
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
  std::map<Slot, std::uint64_t> slots_;      // of those
  std::vector<Posting> postings_;
  TreeEdge edge_;
  std::optional<Draw> draw_;
  std::uint64_t drawn_ = 0;
  std::vector<std::uint64_t> selected_;
  AuditCounts audits_;
};

}  // namespace hearth::ledger

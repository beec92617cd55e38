// Entries of a ledger. An entry is one byte of kind, eight bytes of time (unix seconds) and the
// fields of its kind, in the order below and of fixed sizes; all numbers are little-endian. Only a
// grant states an amount. All other prices follow from the rules (ledger/books.h). The parsers take
// untrusted bytes. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <variant>

#include "base/crypto.h"
#include "base/crypto_vrf.h"
#include "base/result.h"
#include "ledger/receipt.h"
#include "ledger/statements.h"

namespace hearth::ledger {

// 1: the first entry, exactly once: the rules by which the log is folded, and its cluster.
struct RulesEntry {
  Hash256 policy;  // policy_hash()
  PublicKey cluster;
};
// 2: admits a key. It may audit, and serve when its standing allows. Once for each key.
struct MemberEntry {
  PublicKey key;
  Hash256 owner;  // equal for keys of one owner; reveals nothing else
  bool is_vouched = false;
};
// 3: the member's driver, build or address has changed.
struct ChangeEntry {
  PublicKey key;
};
// 4: credit from the treasury.
struct GrantEntry {
  PublicKey to;
  std::int64_t amount = 0;  // above 0
};
// 5: the receipt of a window, and the account that pays for it.
struct ReceiptEntry {
  PublicKey payer;  // zeros: a cluster without credits; the window costs nothing
  std::array<std::byte, kReceiptBytes> receipt{};
  std::uint32_t cached = 0;  // of its prompt positions, that were not computed: they cost less
};
// 6: SealEntry (ledger/statements.h).
// 7: opens a seal: the root and the salt behind it.
struct OpeningEntry {
  std::uint64_t receipt = 0;
  PublicKey auditor;
  Hash256 root;
  Hash256 salt;
};
// 8: ends the dispute about entry `receipt`. kUnjudged: it can no longer be decided.
enum class Verdict : std::uint8_t { kFault = 1, kFraud = 2, kUnjudged = 3 };
struct VerdictEntry {
  std::uint64_t receipt = 0;
  PublicKey guilty;  // the worker, or an auditor who disagreed; zeros when unjudged
  Verdict verdict = Verdict::kFault;
  Hash256 evidence;  // BLAKE2b of the evidence file
};
// 9: two receipts of one slot that contradict each other. They prove themselves.
struct EquivocationEntry {
  std::array<std::byte, kReceiptBytes> one{};
  std::array<std::byte, kReceiptBytes> other{};
};
// 10: moves what has vested from the member's escrow to its spendable account.
struct VestEntry {
  PublicKey key;
};

// 11: selects the windows to audit since the previous draw, by a VRF proof over the checkpoint of
// all entries before this one.
struct DrawEntry {
  VrfProof proof{};
};

using EntryBody =
    std::variant<RulesEntry, MemberEntry, ChangeEntry, GrantEntry, ReceiptEntry, SealEntry,
                 OpeningEntry, VerdictEntry, EquivocationEntry, VestEntry, DrawEntry>;

struct Entry {
  std::int64_t time = 0;
  EntryBody body;
};

Bytes write_entry(const Entry& entry);
// kInvalidInput unless write_entry() of the result gives the same bytes. Signatures are not checked
// here, because that needs the cluster's key (books.h).
Result<Entry> parse_entry(ByteSpan bytes);

// The receipt's bytes in an entry of kind 5, unchecked; empty for any other kind.
ByteSpan receipt_in(ByteSpan entry);

}  // namespace hearth::ledger

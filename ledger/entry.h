// The entries of a ledger: what a log's bytes mean. Each is one byte of kind, eight of time (unix
// seconds, little-endian as all numbers) and the fields of its kind, in the order below and of
// fixed sizes. No entry states an amount but a grant: what everything else costs or earns follows
// from the rules (ledger/books.h). Any bytes may be parsed; pure functions, any thread.
#pragma once

#include <cstdint>
#include <variant>

#include "base/crypto.h"
#include "base/crypto_vrf.h"
#include "base/result.h"
#include "ledger/receipt.h"
#include "ledger/seal.h"

namespace hearth::ledger {

// 1: the first entry, and no other: the rules by which the log is folded, and whose log it is.
struct RulesEntry {
  Hash256 policy;  // policy_hash()
  PublicKey cluster;
};
// 2: a key that may check, and serve when its standing allows. Once for each key.
struct MemberEntry {
  PublicKey key;
  Hash256 owner;  // who answers for it: equal for keys of one owner, and nothing more is said
  bool is_vouched = false;
};
// 3: the member's driver, build or address is another one now.
struct ChangeEntry {
  PublicKey key;
};
// 4: credit from the treasury.
struct GrantEntry {
  PublicKey to;
  std::int64_t amount = 0;  // above 0
};
// 5: a window, and whose credit pays for it.
struct ReceiptEntry {
  PublicKey payer;  // nobody's: a ledger that is a log only; nothing is paid
  std::array<std::byte, kReceiptBytes> receipt{};
};
// 6: SealEntry, of ledger/seal.h.
// 7: and what it was.
struct OpeningEntry {
  std::uint64_t receipt = 0;
  PublicKey auditor;
  Hash256 root;
  Hash256 salt;
};
// 8: how a mismatch at entry `receipt` ended. kUnjudged: nobody can say any more who was wrong.
enum class Verdict : std::uint8_t { kFault = 1, kFraud = 2, kUnjudged = 3 };
struct VerdictEntry {
  std::uint64_t receipt = 0;
  PublicKey guilty;  // its worker or the auditor who disagreed; nobody's where it is unjudged
  Verdict verdict = Verdict::kFault;
  Hash256 evidence;  // BLAKE2b of the file that says why
};
// 9: two receipts of one slot: proves itself.
struct EquivocationEntry {
  std::array<std::byte, kReceiptBytes> one{};
  std::array<std::byte, kReceiptBytes> other{};
};
// 10: what the member has in escrow and need not have any longer becomes its own.
struct VestEntry {
  PublicKey key;
};

// 11: which windows since the draw before it are audited: the proof over the checkpoint of all
// entries before this one.
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
// kInvalidInput unless write_entry() of the result gives these bytes. Signatures are not checked
// here; they need to know the cluster (books.h).
Result<Entry> parse_entry(ByteSpan bytes);

// The receipt in an entry of that kind; nothing in any other. Nothing of it is checked.
ByteSpan receipt_in(ByteSpan entry);

}  // namespace hearth::ledger

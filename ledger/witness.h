// What a witness of a log must know before it cosigns a checkpoint (ledger/PROTOCOL.md, 1), and
// what proves that a log has two histories. Pure functions over bytes of anybody; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/crypto.h"
#include "base/limits.h"
#include "base/result.h"
#include "ledger/merkle.h"
#include "ledger/note.h"

namespace hearth::ledger {

// No proof between two logs of at most limits::kLogEntries entries is longer.
inline constexpr std::size_t kProofHashes = 80;

// A checkpoint with one cosignature: what a witness stores and answers with, and what a log keeps
// of it. kInvalidInput unless it is of this log, of this witness and of nobody else.
Result<Checkpoint> parse_cosigned(ByteSpan bytes, const PublicKey& log, const PublicKey& witness);
// The offered one with the witness's line and no other's.
Checkpoint cosigned_by(const Checkpoint& offered, std::uint64_t time, const SecretKey& witness);

// A checkpoint, and that it extends the first `old_size` entries of its log.
struct Offer {
  Checkpoint checkpoint;
  std::uint64_t old_size = 0;
  Hash256 old_root;
  Proof proof;
};

// Two checkpoints that one log signed, of which neither is a beginning of the other: the first
// `one.size` entries of `other` have another root, and the proof shows which.
struct Fork {
  Checkpoint one;  // of no more entries than `other`
  Checkpoint other;
  Hash256 root;
  Proof proof;
};
// kInvalidInput: it proves nothing, and why.
Status check_fork(const Fork& fork);
inline constexpr std::size_t kForkBytes = 3 * limits::kNoteBytes;
// A text of lines, with both notes in base64.
std::string format_fork(const Fork& fork);
// Of bytes that format_fork() wrote, and checked.
Result<Fork> parse_fork(ByteSpan bytes);

struct Judgement {
  enum class Kind {
    kExtends,    // it may be cosigned
    kSame,       // as the latest
    kElsewhere,  // proved from another size than the latest has: nothing is said of it
    kRefused,
    kFork,
  };
  Kind kind = Kind::kRefused;
  std::string why;           // of the last two, a sentence
  std::optional<Fork> fork;  // of a kFork
};
// Of an offer to who has cosigned `latest` last (nothing: none yet), a witness of `log`.
Judgement judge(const Offer& offer, const std::optional<Checkpoint>& latest, const PublicKey& log);

}  // namespace hearth::ledger

// The rule by which a witness cosigns checkpoints (ledger/PROTOCOL.md, 1), and the proof that a log
// has two histories. The parsers take untrusted bytes. Pure functions, any thread.
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

// Upper bound on the hashes of a proof between logs of at most limits::kLogEntries entries.
inline constexpr std::size_t kProofHashes = 80;

// Parses a checkpoint of this log with exactly one cosignature, by this witness; anything else is
// kInvalidInput. A witness stores such a note and answers with it, and the log keeps it.
Result<Checkpoint> parse_cosigned(ByteSpan bytes, const PublicKey& log, const PublicKey& witness);
// The offered checkpoint with this witness's cosignature only.
Checkpoint cosigned_by(const Checkpoint& offered, std::uint64_t time, const SecretKey& witness);

// A checkpoint with the proof that it extends the first `old_size` entries of its log.
struct Offer {
  Checkpoint checkpoint;
  std::uint64_t old_size = 0;
  Hash256 old_root;
  Proof proof;
};

// Two checkpoints that one log signed and that contradict each other: the first `one.size` entries
// of `other` have the root `root`, as `proof` shows, and `one` states another root.
struct Fork {
  Checkpoint one;  // size at most that of `other`
  Checkpoint other;
  Hash256 root;
  Proof proof;
};
// kInvalidInput says why the fork is not proved.
Status check_fork(const Fork& fork);
inline constexpr std::size_t kForkBytes = 3 * limits::kNoteBytes;
// Lines of text, with both notes in base64.
std::string format_fork(const Fork& fork);
// Parses the output of format_fork() and checks it.
Result<Fork> parse_fork(ByteSpan bytes);

struct Judgement {
  enum class Kind {
    kExtends,    // it may be cosigned
    kSame,       // equals the latest
    kElsewhere,  // proved from another size than the latest: says nothing
    kRefused,
    kFork,
  };
  Kind kind = Kind::kRefused;
  std::string why;           // for kRefused and kFork, a sentence
  std::optional<Fork> fork;  // for kFork
};
// Judges an offer for a witness of `log` that cosigned `latest` last (absent: never).
Judgement judge(const Offer& offer, const std::optional<Checkpoint>& latest, const PublicKey& log);

}  // namespace hearth::ledger

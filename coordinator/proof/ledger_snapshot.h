// LedgerSnapshot: what the fold of the log's first entries came to, in the file `snapshot` of the
// log's folder, so that a start folds only what follows. Every entry is hashed and compared with
// the signed root all the same. A snapshot is no proof and no part of the log: only the coordinator
// reads it, `hearth audit` and `hearth ledger` fold every entry. It counts only
// while it has the cluster's MAC, is of the rules that this program folds by, and names the root
// that the log's first so many entries have; else it is passed over and the whole log is folded.
//
// "hearth ledger snapshot v1", a line feed, keyed BLAKE2b (32 bytes) of what follows: receipts
// since the latest draw (8), verdicts (8, and 82 each as entries of the time 0), and the books
// (ledger/books_state.h). Plain functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/crypto.h"
#include "ledger/books_state.h"
#include "ledger/entry.h"
#include "ledger/folder.h"
#include "ledger/note.h"

namespace hearth::coordinator {

// Entries between two snapshots of a running server; a crash costs the fold of as many.
inline constexpr std::uint64_t kSnapshotEvery = 16'384;
inline constexpr std::size_t kSnapshotBytes = std::size_t{64} << 20;  // a larger one is not kept

struct LedgerSnapshot {
  ledger::BooksState books;
  std::uint64_t undrawn = 0;
  std::vector<ledger::VerdictEntry> verdicts;  // of the log so far, in order
};

Bytes write_snapshot(const SecretKey& cluster, const ledger::Books& books, std::uint64_t undrawn,
                     std::span<const ledger::VerdictEntry> verdicts);
// kInvalidInput says why the bytes are no snapshot of this cluster and program.
Result<LedgerSnapshot> read_snapshot(const SecretKey& cluster, ByteSpan bytes);
// The snapshot in a log's folder. Nothing where it is missing or does not fit the log; the process
// log says why. It trusts the log's tiles, so the log must be scanned after that.
std::optional<LedgerSnapshot> find_snapshot(const SecretKey& cluster, ledger::LogFolder& folder,
                                            const ledger::Checkpoint& checkpoint);

}  // namespace hearth::coordinator

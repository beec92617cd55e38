// LedgerSnapshot: the fold of the log's first entries, in the file `snapshot` of the log's folder,
// so that a start folds only later entries. Every entry is still hashed and compared with the
// signed root. A snapshot is neither proof nor part of the log: only the coordinator reads it;
// `hearth audit` and `hearth ledger` fold every entry. It is valid only with the cluster's MAC,
// this program's rules, and the root of the log's first entries. Otherwise the whole log is folded.
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

// Entries between two snapshots of a running server; after a crash at most so many are folded
// again.
inline constexpr std::uint64_t kSnapshotEvery = 16'384;
inline constexpr std::size_t kSnapshotBytes = std::size_t{64} << 20;  // a larger one is not written

struct LedgerSnapshot {
  ledger::BooksState books;
  std::uint64_t undrawn = 0;
  std::vector<ledger::VerdictEntry> verdicts;  // of the log so far, in order
};

Bytes write_snapshot(const SecretKey& cluster, const ledger::Books& books, std::uint64_t undrawn,
                     std::span<const ledger::VerdictEntry> verdicts);
// kInvalidInput says why the bytes are not a snapshot of this cluster and program.
Result<LedgerSnapshot> read_snapshot(const SecretKey& cluster, ByteSpan bytes);
// The snapshot in a log's folder. Nothing when it is missing or does not fit the log; the process
// log has the reason. It trusts the log's tiles, so the log must be scanned after that.
std::optional<LedgerSnapshot> find_snapshot(const SecretKey& cluster, ledger::LogFolder& folder,
                                            const ledger::Checkpoint& checkpoint);

}  // namespace hearth::coordinator

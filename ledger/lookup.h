// Lookup of one answer in a log: finds its receipts by the answer's name and checks them. It reads
// the bundles since the answer was requested and a few tiles, not the whole log. Any thread.
#pragma once

#include <optional>
#include <vector>

#include "ledger/entry.h"
#include "ledger/folder.h"
#include "ledger/note.h"
#include "ledger/receipt.h"
#include "ledger/scan.h"

namespace hearth::ledger {

struct LoggedReceipt {
  std::uint64_t entry = 0;
  Bytes bytes;  // of the whole entry
};

// The entries that are receipts of this answer, in order and unchecked. `most`: bundles that are
// read from the answer's time on; an answer's receipts are among the first of them, unless it took
// very long.
Result<std::vector<LoggedReceipt>> find_receipts(LogFolder& folder, const Checkpoint& checkpoint,
                                                 const AnswerName& answer,
                                                 std::uint64_t most = ~std::uint64_t{0});

// Checks the result of find_receipts() and returns it ordered by request, window and stage.
// kInvalidInput names the entry, or the request and window, and the reason: the entry is not in the
// signed tree, a signature or an edge is wrong, or a stage or an earlier window is missing. A log
// cannot show that windows at the end are missing.
Result<std::vector<Receipt>> check_receipts(LogFolder& folder, const Checkpoint& checkpoint,
                                            const std::vector<LoggedReceipt>& found);

// The audits of one receipt, and the verdict when an audit disagreed.
struct LoggedAudits {
  std::uint32_t agreed = 0;
  std::uint32_t differed = 0;
  std::optional<Verdict> worker;   // a verdict against the worker that signed the receipt
  std::optional<Verdict> auditor;  // a verdict against an auditor that disagreed
};

// The audits of each of these receipts, in the same order, among the `most` bundles from the first
// receipt on. Entries are not checked here; `hearth
// audit` checks them.
Result<std::vector<LoggedAudits>> find_audits(LogFolder& folder, const Checkpoint& checkpoint,
                                              const std::vector<LoggedReceipt>& found,
                                              std::uint64_t most = ~std::uint64_t{0});

}  // namespace hearth::ledger

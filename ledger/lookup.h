// What a log says of one answer: its receipts, found by the answer's name, and whether they prove
// what they say. Reads the bundles since the answer was asked for and a few tiles, not the log.
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

// Entries of the log that are receipts of this answer, in order; none is checked.
Result<std::vector<LoggedReceipt>> find_receipts(LogFolder& folder, const Checkpoint& checkpoint,
                                                 const AnswerName& answer);

// Of what find_receipts() gave, in the order of request, window and stage. kInvalidInput names the
// entry, or the window of a request, and what is wrong: that it is not in the tree which the
// checkpoint signs, that a signature or an edge does not hold, or that a stage or a window is
// missing before the last one. That later windows are missing as well, no log can show.
Result<std::vector<Receipt>> check_receipts(LogFolder& folder, const Checkpoint& checkpoint,
                                            const std::vector<LoggedReceipt>& found);

// What others found who computed the window of a receipt again, and how it ended where they differ.
struct LoggedAudits {
  std::uint32_t agreed = 0;
  std::uint32_t differed = 0;
  std::optional<Verdict> worker;   // a verdict on who signed the receipt
  std::optional<Verdict> auditor;  // or on one who differed
};

// Of each of these receipts, in their order. Entries are read as they stand: what is wrong with
// them, `hearth audit` says.
Result<std::vector<LoggedAudits>> find_audits(LogFolder& folder, const Checkpoint& checkpoint,
                                              const std::vector<LoggedReceipt>& found);

}  // namespace hearth::ledger

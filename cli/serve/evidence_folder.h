// The folder beside a ledger's log that holds the evidence of its verdicts, each file under its
// BLAKE2b in hex.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"
#include "ledger/folder.h"

namespace hearth::cli {

// Writes a file that only its owner can read; when this returns, the file is on the disk.
Status keep_verdict(const std::string& folder, const Hash256& hash, ByteSpan evidence);
// The evidence of all complete files, in the order of their names. Unreadable files are skipped:
// `hearth audit` reports them where the log names them.
std::vector<Bytes> kept_verdicts(const std::string& folder);

// The same for a log that is not on this disk (coordinator/store/stored_log.h).
Status store_verdict(ledger::LogFolder& log, const Hash256& hash, ByteSpan evidence);
Result<std::vector<Bytes>> stored_verdicts(ledger::LogFolder& log);

}  // namespace hearth::cli

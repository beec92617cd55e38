// The folder beside a ledger's log that holds the evidence of its verdicts, each file under its
// BLAKE2b in hex.
#pragma once

#include <functional>
#include <memory>
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

// What a coordinator's ledger needs of both.
struct Evidence {
  std::function<Status(const Hash256& hash, ByteSpan evidence)> keep;
  std::function<std::vector<Bytes>()> kept;
};
// `stored`: the log, where it is not on this disk (coordinator/store/stored_log.h): the next leader
// looks for the evidence there, and a copy in the folder is for hearth verify. Null: on this disk.
Evidence evidence_in(const std::string& folder, std::shared_ptr<ledger::LogFolder> stored);

}  // namespace hearth::cli

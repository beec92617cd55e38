// The folder beside a ledger's log in which the evidence of its verdicts lies, each file under its
// BLAKE2b in hex: lines, and the files of disputes that they name.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"

namespace hearth::cli {

// For its owner alone; when it returns, it is on the disk.
Status keep_verdict(const std::string& folder, const Hash256& hash, ByteSpan evidence);

// Evidence that is whole, with the dispute's file where it names one, in the order of the names.
// What cannot be read is passed over: of what the log names, `hearth audit` says so.
std::vector<Bytes> kept_verdicts(const std::string& folder);

}  // namespace hearth::cli

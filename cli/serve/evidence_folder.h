// The folder beside a ledger's log that holds the evidence of its verdicts, each file under its
// BLAKE2b in hex.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"

namespace hearth::cli {

// For its owner alone; when it returns, it is on the disk.
Status keep_verdict(const std::string& folder, const Hash256& hash, ByteSpan evidence);
// The evidence of whole files, in the order of their names. What cannot be read is passed over:
// `hearth audit` reports it where the log names it.
std::vector<Bytes> kept_verdicts(const std::string& folder);

}  // namespace hearth::cli

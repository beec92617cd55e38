// hearth audit: verifies a ledger's log from its files alone, offline. Exit code 6 where anything
// is wrong, with the first fault: file, byte and entry.
#pragma once

#include <optional>
#include <string>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::cli {

struct AuditOptions {
  std::string folder;   // of a server's data, with its log in ledger/, or of a log itself
  std::string key;      // the log's, 64 hex digits; empty: the one that its checkpoint names
  std::string earlier;  // a file with a checkpoint that somebody kept; empty: none
  // The same, but written anew with the log's checkpoint when that is sound; a first time it need
  // not be there. Empty: nothing is kept.
  std::string keep;
  std::string archive;  // where archived bundles are now; empty: where the log's folder says
  bool without_archive = false;  // archived entries count by their hashes; no books then
  std::string fork;  // instead of a folder: a file of a node that saw two histories of a log
  bool json = false;
};
// A log's key as it is given; nothing for an empty text: the one that the log names.
Result<std::optional<PublicKey>> log_key(const std::string& hex);
// Where a log lies in a folder that is a server's, or the log's own.
std::string log_folder(const std::string& given);
// Ends a verb whose files do not prove what they claim, with `sentence` on stderr and with `json`
// the fault on stdout; kExitVerification.
int not_proved(const std::string& sentence, const std::string& fault, bool json);

int run_audit(const AuditOptions& options);

}  // namespace hearth::cli

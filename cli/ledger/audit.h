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
  std::string key;      // the log's key, 64 hex digits; empty: the one that its checkpoint names
  std::string earlier;  // a file with an earlier checkpoint; empty: none
  // As `earlier`, but when the log is sound its checkpoint replaces the file's. The file need not
  // exist the first time. Empty: no checkpoint is stored.
  std::string keep;
  std::string archive;  // where the archived bundles are now; empty: where the log's folder says
  // Verifies archived entries by their hashes only; the books are then not folded.
  bool without_archive = false;
  std::string fork;  // in place of a folder: a file of a node that saw two histories of a log
  bool json = false;
};
// Parses a log's key; nothing for an empty text: the key that the log itself names.
Result<std::optional<PublicKey>> log_key(const std::string& hex);
// The path of the log in a server's data folder or in a log's own folder.
std::string log_folder(const std::string& given);
// Ends a verb whose files do not prove what they claim, with `sentence` on stderr and with `json`
// the fault on stdout; kExitVerification.
int not_proved(const std::string& sentence, const std::string& fault, bool json);

int run_audit(const AuditOptions& options);

}  // namespace hearth::cli

// hearth verify: whether a log proves what a receipt of an answer says, offline; and whether a
// model file of this machine gives that answer.
#pragma once

#include <string>
#include <string_view>

#include "cli/ledger/reexecute.h"

namespace hearth::cli {

struct VerifyOptions {
  // As hearth.receipt and x-hearth-receipt have it; or a file with the answer (saved_answer.h).
  std::string receipt;
  std::string request;  // a file with the body of the request; empty: it is beside the answer
  bool re_execute = false;
  ReexecuteOptions machine;
  std::string folder;   // a server's data folder or a log's own; empty: this machine's
  std::string key;      // the log's; empty: the one that it names
  std::string archive;  // as AuditOptions
  bool json = false;
};

int run_verify(const VerifyOptions& options);

// The same for the evidence of a verdict. With --re-execute, recomputes the disputed window layer
// by layer from a model file of this machine, and checks that the same side is false. `text`: the
// content of the file options.receipt. Ends with kExitVerification where the verdict is not proved.
bool is_verdict_evidence(std::string_view text);
int run_verify_verdict(const VerifyOptions& options, std::string_view text);

}  // namespace hearth::cli

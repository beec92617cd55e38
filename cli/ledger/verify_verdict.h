// hearth verify --re-execute, on the evidence of a verdict: the disputed window computed again from
// a model file of this machine, layer by layer, and whether the same side is false.
#pragma once

#include <string_view>

#include "cli/ledger/reexecute.h"

namespace hearth::cli {

bool is_verdict_evidence(std::string_view text);

struct VerdictOptions {
  ReexecuteOptions machine;
  bool re_execute = false;  // else what is signed is checked, and nothing is computed
  std::string key;          // of the cluster, 64 hex digits; empty: the one that it names
  bool json = false;
};
// `path`: of the file with that text. Ends with kExitVerification where the verdict is not proved.
int run_verify_verdict(const VerdictOptions& options, const std::string& path,
                       std::string_view text);

}  // namespace hearth::cli

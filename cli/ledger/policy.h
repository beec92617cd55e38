// hearth ledger policy: prints the rules of a ledger.
#pragma once

namespace hearth::cli {

struct LedgerPolicyOptions {
  bool json = false;
};
// The table of ledger/policy.h, and whether it makes every cheat lose.
int run_ledger_policy(const LedgerPolicyOptions& options);

}  // namespace hearth::cli

// hearth ledger: what a ledger says, and the rules by which it says it.
#pragma once

namespace hearth::cli {

struct LedgerPolicyOptions {
  bool json = false;
};
// The table of ledger/policy.h, and whether it makes every cheat lose.
int run_ledger_policy(const LedgerPolicyOptions& options);

}  // namespace hearth::cli

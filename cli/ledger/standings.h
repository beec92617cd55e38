// hearth ledger and its sub-commands.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

// hearth ledger [NODE] and hearth ledger top: standing, credits and history of nodes. Read from the
// files of a ledger and verified like hearth audit: every hash, signature and rule. Exit code 6 for
// any fault.
struct StandingsOptions {
  std::string node;      // a name of the roster, or the first eight or more digits of a key; empty:
                         // all nodes
  std::string folder;    // as AuditOptions; empty: this machine's
  std::string key;       // as AuditOptions
  std::string archive;   // as AuditOptions
  bool by_work = false;  // who served most comes first
  std::uint32_t most = 0;  // rows; 0: all
  bool json = false;
};
int run_standings(const StandingsOptions& options);

// The table of ledger/policy.h, and whether it makes every cheat lose.
struct LedgerPolicyOptions {
  bool json = false;
};
int run_ledger_policy(const LedgerPolicyOptions& options);

// Moves credits from the treasury to an account, through the API of the server that keeps the
// ledger.
struct GrantOptions {
  std::string api_base;
  std::string api_key;  // an admin's; empty: none
  std::string to;       // a node's or an API key's name, or an account's 64 hex digits
  std::string amount;   // a whole number, from 1
  bool json = false;
};
int run_grant(const GrantOptions& options);

}  // namespace hearth::cli

// hearth ledger [NODE] and hearth ledger top: standing, credits and history of nodes. Read from the
// files of a ledger and verified like hearth audit: every hash, signature and rule. Exit code 6 for
// any fault.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

struct StandingsOptions {
  std::string node;      // a name of the roster, or the first eight or more digits of a key; empty:
                         // everybody
  std::string folder;    // as AuditOptions; empty: this machine's
  std::string key;       // as AuditOptions
  bool by_work = false;  // who served most comes first
  std::uint32_t most = 0;  // rows; 0: all
  bool json = false;
};
int run_standings(const StandingsOptions& options);

}  // namespace hearth::cli

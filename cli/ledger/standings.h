// hearth ledger [NODE] and hearth ledger top: what a ledger says of those who serve, read from its
// files as hearth audit reads them, every hash, signature and rule checked. Exit code 6 where
// anything is wrong.
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

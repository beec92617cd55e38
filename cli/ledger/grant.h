// hearth ledger grant: credit from the treasury, through the API of the server that keeps the
// ledger.
#pragma once

#include <string>

namespace hearth::cli {

struct GrantOptions {
  std::string api_base;
  std::string api_key;  // an admin's; empty: none
  std::string to;       // a node's or an API key's name, or an account's 64 hex digits
  std::string amount;   // a whole number, from 1
  bool json = false;
};
int run_grant(const GrantOptions& options);

}  // namespace hearth::cli

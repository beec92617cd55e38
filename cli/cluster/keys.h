// hearth key: the API's keys, in the store of the data folder. The server of that folder may run
// meanwhile; it asks the store at every request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::cli {

struct KeyOptions {
  std::string name;                       // to create: empty, its id; to revoke: name or id
  std::vector<std::string> models;        // that it may use; empty: all
  std::uint32_t requests_per_minute = 0;  // 0: any number
  std::vector<std::string> trust;         // nodes for requests that name none; empty: any
  bool admin = false;
  std::string account;    // a node, or an account's 64 digits; empty: one of its own
  std::string verify;     // none, spot or full; empty: none
  std::string min_level;  // as ledger::level_name(); empty: a newcomer's
  std::string data_dir;   // empty: cli/process/paths.h
  bool json = false;
};

int run_key_create(const KeyOptions& options);  // prints the key, once and never again
int run_key_list(const KeyOptions& options);
int run_key_revoke(const KeyOptions& options);

}  // namespace hearth::cli

// hearth token: the words with which machines join this one's cluster, in the store of the data
// folder. Its server may run meanwhile; it asks the store whenever somebody wants in.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

struct TokenOptions {
  std::string id;               // to revoke
  std::string role = "worker";  // or client, admin: what the machine that joins may do
  std::uint32_t seconds = 24 * 3600;
  std::uint32_t uses = 1;
  std::string owner;      // of the machines that join with it; empty: nobody says
  bool newcomer = false;  // who joins with it checks others' results and serves nobody at first
  std::string data_dir;   // empty: cli/process/paths.h
  bool json = false;
};

int run_token_create(const TokenOptions& options);  // prints the word, once and never again
int run_token_list(const TokenOptions& options);
int run_token_revoke(const TokenOptions& options);

}  // namespace hearth::cli

// hearth token: join tokens of this machine's cluster, in the store of the data folder. The server
// of that folder may run meanwhile; it reads the store at every join request.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

struct TokenOptions {
  std::string id;               // to revoke
  std::string role = "worker";  // or client, admin: what the machine that joins may do
  std::uint32_t seconds = 24 * 3600;
  std::uint32_t uses = 1;
  std::string owner;      // of the nodes that join with it; empty: none
  bool newcomer = false;  // nodes that join with it audit before they may serve
  std::string data_dir;   // empty: cli/process/paths.h
  bool json = false;
};

int run_token_create(const TokenOptions& options);  // prints the token; it cannot be shown again
int run_token_list(const TokenOptions& options);
int run_token_revoke(const TokenOptions& options);

}  // namespace hearth::cli

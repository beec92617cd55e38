// hearth nodes, nodes rm, nodes restore, leave: the members of a cluster, and how they leave it.
#pragma once

#include <string>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::cli {

// Waits a few seconds for the roster of a running server to contain the key (`in`) or not to.
bool wait_for_roster(const std::string& folder, const PublicKey& key, bool in);
// Fails when a node in the coordinator's newest roster has that name.
Status check_name_is_free(const std::string& folder, const std::string& name);

struct NodesOptions {
  std::string name;      // to remove
  std::string data_dir;  // empty: cli/process/paths.h
  bool here_only = false;
  bool json = false;
};

// The roster of this machine's data folder, whether it is the coordinator's or has joined.
int run_nodes(const NodesOptions& options);
// On the coordinator's machine. A running server follows within two seconds.
int run_nodes_rm(const NodesOptions& options);
// On the coordinator's machine while no server runs: repairs a folder or store that was replaced by
// an older copy (coordinator/membership/set_back.h).
int run_nodes_restore(const NodesOptions& options);

// On a machine that has joined.
int run_leave(const NodesOptions& options);

}  // namespace hearth::cli

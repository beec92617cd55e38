// hearth nodes, nodes rm, nodes restore, leave: who is in the cluster, and the ways out of it.
#pragma once

#include <string>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth::cli {

// Whether a server runs and its roster names the key (`in`) or does not, within a few seconds.
bool wait_for_roster(const std::string& folder, const PublicKey& key, bool in);
// Whether the coordinator's newest roster has nobody of that name.
Status check_name_is_free(const std::string& folder, const std::string& name);

struct NodesOptions {
  std::string name;      // to remove
  std::string data_dir;  // empty: cli/process/paths.h
  bool here_only = false;
  bool json = false;
};

// The roster of this machine's data folder, whether it is the coordinator's or has joined.
int run_nodes(const NodesOptions& options);
// On the coordinator's machine. A server that runs follows within a second or two.
int run_nodes_rm(const NodesOptions& options);
// There too, with no server running: after an older copy of the folder, or of its store, was put
// back (coordinator/membership/set_back.h).
int run_nodes_restore(const NodesOptions& options);

// On a machine that has joined.
int run_leave(const NodesOptions& options);

}  // namespace hearth::cli

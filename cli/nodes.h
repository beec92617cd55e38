// hearth nodes, nodes rm, leave: who is in the cluster, and the ways out of it.
#pragma once

#include <string>

#include "cli/worker.h"

namespace hearth::cli {

struct NodesOptions {
  std::string name;      // to remove
  std::string data_dir;  // empty: cli/paths.h
  bool here_only = false;
  bool json = false;
};

// The roster of this machine's data folder, whether it is the coordinator's or has joined.
int run_nodes(const NodesOptions& options);
// On the coordinator's machine. A server that runs follows within a second or two.
int run_nodes_rm(const NodesOptions& options);

// On a machine that has joined, or joins now: enrols it and runs its worker until SIGINT or
// SIGTERM.
int run_join(const std::string& token, const WorkerOptions& options);
int run_leave(const NodesOptions& options);

}  // namespace hearth::cli

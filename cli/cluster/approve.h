// hearth approve: admits a node that asks to join without a token; runs on the coordinator's
// machine. A running server follows within two seconds. Nodes may ask for ten minutes after each
// call.
#pragma once

#include <string>

namespace hearth::cli {

struct ApproveOptions {
  std::string node;  // its name or the words of its key; empty: list the nodes that wait
  std::string role = "worker";
  std::string owner;      // owner of the node; empty: none
  bool newcomer = false;  // it audits before it may serve
  std::string data_dir;   // empty: cli/process/paths.h
  bool json = false;
};
int run_approve(const ApproveOptions& options);

}  // namespace hearth::cli

// hearth approve: lets a node in that asks without a token, on the coordinator's machine. A server
// that runs follows within a second or two. Machines may ask for ten minutes after each look.
#pragma once

#include <string>

namespace hearth::cli {

struct ApproveOptions {
  std::string node;  // its name or the words of its key; empty: list those that wait
  std::string role = "worker";
  std::string owner;      // whose machine it is; empty: nobody says
  bool newcomer = false;  // not vouched for: it checks others' results and serves nobody at first
  std::string data_dir;   // empty: cli/process/paths.h
  bool json = false;
};
int run_approve(const ApproveOptions& options);

}  // namespace hearth::cli

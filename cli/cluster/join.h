// hearth join: this machine into a cluster, with a token or by the word of a person there.
#pragma once

#include <cstdint>
#include <string>

#include "cli/worker/worker.h"

namespace hearth::cli {

struct JoinOptions {
  // A token; or the address of a coordinator, or name or words of a cluster that announces itself,
  // to ask without one; empty: the clusters of this network are listed, and on a terminal one of
  // them may be chosen.
  std::string target;
  std::uint32_t wait_seconds = 600;  // without a token: for somebody to let this machine in
  bool yes = false;                  // without a token: no question before asking
  WorkerOptions worker;
};

// With a model this machine is to be a worker, and runs until SIGINT or SIGTERM; without, it
// becomes what the token grants.
int run_join(const JoinOptions& options);

}  // namespace hearth::cli

// hearth logs: what the processes of this machine have logged.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

struct LogsOptions {
  std::string node;         // empty: all of the server's, or of the one worker that there is
  std::string data_dir;     // empty: cli/process/paths.h
  std::uint32_t lines = 0;  // the last so many; 0: all
  bool follow = false;      // and whatever comes, until Ctrl-C
  bool json = false;        // one object a line
};

// kExitFailed, naming those that there are, when nothing is logged of such a node.
int run_logs(const LogsOptions& options);

}  // namespace hearth::cli

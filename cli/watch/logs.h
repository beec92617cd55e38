// hearth logs: shows the end of a log file of this machine and follows it, by means of tail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

struct LogsOptions {
  std::string node;      // a worker that has a file of its own; empty: the server, or the only one
  std::string data_dir;  // empty: cli/process/paths.h
  std::uint32_t lines = 0;  // so many lines from the end
  bool follow = false;      // continue with new lines, also after a rotation, until Ctrl-C
};

// The program and its arguments. kNotFound, naming the workers that have files, when the node has
// none.
Result<std::vector<std::string>> logs_command(const LogsOptions& options);

// Replaces this process by that program; returns only when it fails.
int run_logs(const LogsOptions& options);

}  // namespace hearth::cli

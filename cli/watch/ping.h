// hearth ping: how long the way to a node's data links takes, and how fast it is, over links like
// those that activations travel on.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

struct PingOptions {
  std::string node;
  std::uint32_t count = 4;
  double interval_seconds = 1.0;  // between two probes
  bool no_rate = false;           // no bulk after them
  std::string data_dir;           // empty: cli/process/paths.h
  bool json = false;
};

// kExitUnreachable when no probe is answered.
int run_ping(const PingOptions& options);

}  // namespace hearth::cli

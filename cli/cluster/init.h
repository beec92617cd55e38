// hearth init: makes this machine the coordinator of a cluster (cli/home/cluster_file.h), or
// changes the address or the credits of the cluster that it has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hearth::cli {

struct InitOptions {
  std::string name;  // empty: the existing cluster gets another address
  std::string host;  // empty: the address by which this machine reaches others, or unchanged
  std::uint16_t control_port = 0;  // 0: kClusterPort, or unchanged
  std::string data_dir;            // empty: cli/process/paths.h
  bool json = false;
  std::optional<bool> credits = {};  // nothing: none, or unchanged
};
int run_init(const InitOptions& options);

}  // namespace hearth::cli

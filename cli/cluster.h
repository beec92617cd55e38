// hearth init: a cluster of this machine, and cluster.json, in which its server finds where the
// other machines reach it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace hearth::cli {

inline constexpr std::uint16_t kClusterPort = 11'501;

struct Cluster {
  std::string name;  // as check_node_name
  std::string host;  // a numeric address of this machine: links listen there and nowhere else
  std::uint16_t control_port = kClusterPort;
};

// Nothing before hearth init: the folder's server then serves this machine alone.
Result<std::optional<Cluster>> read_cluster(const std::string& folder);
// The same; kNotFound, with what to do, when there is none.
Result<Cluster> need_cluster(const std::string& folder);

struct InitOptions {
  std::string name;
  std::string host;  // empty: the address by which this machine reaches others
  std::uint16_t control_port = kClusterPort;
  std::string data_dir;  // empty: cli/paths.h
  bool json = false;
};
int run_init(const InitOptions& options);

}  // namespace hearth::cli

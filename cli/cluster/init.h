// hearth init: a cluster of this machine, and cluster.json, in which its server finds where the
// other machines reach it; and the same again when that has changed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace hearth::coordinator {
class Store;
}

namespace hearth::cli {

inline constexpr std::uint16_t kClusterPort = 11'501;

struct Cluster {
  std::string name;  // as check_node_name
  std::string host;  // a numeric address of this machine: links listen there and nowhere else
  std::uint16_t control_port = kClusterPort;
  bool credits = false;  // who sends prompts pays; else the ledger is a log only
};

// Nothing before hearth init: the folder's server then serves this machine alone.
Result<std::optional<Cluster>> read_cluster(const std::string& folder);
// The same; kNotFound, with what to do, when there is none.
Result<Cluster> need_cluster(const std::string& folder);
// That the cluster's address is one of this machine still; else kUnavailable, with what mends it.
Status check_own_address(const Cluster& cluster);
// The file of the folder's admin key; kNotFound where it has none, kInvalidInput where others may
// read it.
Result<Bytes> read_admin_key(const std::string& folder);
// That it has none, or nobody else may read it.
Status check_admin_key(const std::string& folder);
// The store of a folder that has a cluster; else as need_cluster. Its server may run meanwhile.
Result<std::shared_ptr<coordinator::Store>> open_cluster_store(const std::string& folder);

struct InitOptions {
  std::string name;  // empty: the cluster that is there gets another address
  std::string host;  // empty: the address by which this machine reaches others, or as it was
  std::uint16_t control_port = 0;  // 0: kClusterPort, or as it was
  std::string data_dir;            // empty: cli/process/paths.h
  bool json = false;
  std::optional<bool> credits = {};  // nothing: none, or as it was
};
int run_init(const InitOptions& options);

}  // namespace hearth::cli

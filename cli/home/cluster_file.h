// cluster.json of a data folder: the cluster whose coordinator this machine is, and the address at
// which other machines reach it; and the admin key of its API.
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
  bool credits = false;  // senders of prompts pay; otherwise the ledger is only a log
  bool follows = false;  // hearth init found the host, so it follows the address of the machine
};

// Nothing before hearth init: the server of the folder then serves this machine alone.
Result<std::optional<Cluster>> read_cluster(const std::string& folder);
// The same; kNotFound, with what to do, when the folder has no cluster.
Result<Cluster> need_cluster(const std::string& folder);
// kUnavailable, with what to do, when this machine no longer has the cluster's address.
Status check_own_address(const Cluster& cluster);
// As above. First, when the machine no longer has the address of a cluster that follows its
// machine, the cluster gets the address of the default route.
Status settle_address(const std::string& folder, Cluster& cluster);
Status write_cluster(const std::string& folder, const Cluster& cluster);
// The folder's admin key: kNotFound when it does not exist, kInvalidInput when others may read it.
std::string admin_key_file(const std::string& folder);
Result<Bytes> read_admin_key(const std::string& folder);
// The store of a folder that has a cluster; else as need_cluster. Its server may run meanwhile.
Result<std::shared_ptr<coordinator::Store>> open_cluster_store(const std::string& folder);

}  // namespace hearth::cli

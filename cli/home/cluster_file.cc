#include "cli/home/cluster_file.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/limits.h"
#include "base/private_file.h"
#include "cli/home/member.h"
#include "cli/home/own_address.h"
#include "cli/process/paths.h"
#include "coordinator/client/api_address.h"
#include "coordinator/store/store.h"
#include "proto/address.h"
#include "proto/frame.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kFileBytes = 16 * limits::kKiB;
constexpr std::size_t kAdminKeyFileBytes = 4096;

std::string cluster_file(const std::string& folder) { return folder + "/cluster.json"; }

Result<Cluster> parse_cluster(std::string_view text) try {
  const OrderedJson json = OrderedJson::parse(text);
  Cluster cluster;
  cluster.name = json.value("name", "");
  TRY_VOID(check_node_name(cluster.name));
  const auto port = json.value("control_port", std::uint32_t{0});
  REQUIRE(port >= 1 && port <= 65'535, "control_port must be from 1 to 65535");
  cluster.control_port = static_cast<std::uint16_t>(port);
  TRY(const Address address,
      parse_address(Address{json.value("host", ""), cluster.control_port}.text()));
  cluster.host = address.host;
  cluster.credits = json.value("credits", false);
  cluster.follows = json.value("follows", false);
  return cluster;
} catch (const OrderedJson::exception&) {
  return Error::invalid("the file is not the JSON that hearth writes");
}

}  // namespace

std::string admin_key_file(const std::string& folder) { return folder + "/admin.key"; }

Status write_cluster(const std::string& folder, const Cluster& cluster) {
  const OrderedJson json = {{"name", cluster.name},
                            {"host", cluster.host},
                            {"control_port", cluster.control_port},
                            {"credits", cluster.credits},
                            {"follows", cluster.follows}};
  return write_private_file(cluster_file(folder), as_bytes(json.dump(2) + "\n"));
}

Result<Bytes> read_admin_key(const std::string& folder) {
  return read_private_file(admin_key_file(folder), kAdminKeyFileBytes);
}

Result<std::optional<Cluster>> read_cluster(const std::string& given) {
  const std::string path = cluster_file(data_folder(given));
  const auto bytes = read_private_file(path, kFileBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return std::optional<Cluster>();
  if (!bytes) return bytes.error();
  auto cluster = parse_cluster(as_text(*bytes));
  REQUIRE(
      cluster.ok(), path, " is damaged: ", cluster.error().message,
      "; restore a copy of it, or create a cluster in another folder: hearth init NAME --data-dir "
      "FOLDER");
  return std::optional(std::move(*cluster));
}

Result<Cluster> need_cluster(const std::string& folder) {
  TRY(const auto cluster, read_cluster(folder));
  if (cluster) return *cluster;
  TRY(const auto member, read_member_file(folder));
  if (member) {
    return Error::of(ErrorCode::kNotFound, "this machine is ", member->node,
                     " in another machine's cluster; run this on its coordinator's machine");
  }
  return Error::of(ErrorCode::kNotFound, "the data folder ", data_folder(folder),
                   " has no cluster; create one: hearth init NAME");
}

Status check_own_address(const Cluster& cluster) {
  if (client::is_own_host(cluster.host)) return ok_status();
  const auto now = own_host();
  return Error::of(ErrorCode::kUnavailable, "the cluster ", cluster.name, " has the address ",
                   cluster.host, ", which this machine does not have",
                   (now.ok() ? ", but " + *now + " is" : std::string()),
                   "; name one that it has: hearth init --address ", (now.ok() ? *now : "ADDRESS"));
}

Status settle_address(const std::string& folder, Cluster& cluster) {
  const auto now = default_host();
  if (cluster.follows && now.ok() && !client::is_own_host(cluster.host)) {
    Cluster moved = cluster;
    moved.host = *now;
    TRY_VOID(write_cluster(data_folder(folder), moved));
    cluster = std::move(moved);
  }
  return check_own_address(cluster);
}

Result<std::shared_ptr<coordinator::Store>> open_cluster_store(const std::string& folder) {
  TRY_VOID(need_cluster(folder));
  return coordinator::open_store(data_folder(folder));
}

}  // namespace hearth::cli

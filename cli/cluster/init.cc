#include "cli/cluster/init.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/limits.h"
#include "base/private_file.h"
#include "cli/home/identity.h"
#include "cli/home/member.h"
#include "cli/home/own_address.h"
#include "cli/home/server_file.h"
#include "cli/process/paths.h"
#include "cli/terminal/exit_codes.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/store/store.h"
#include "proto/address.h"
#include "proto/frame.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFileBytes = 16 * limits::kKiB;
constexpr const char* kAdminKey = "admin";
constexpr std::size_t kAdminKeyFileBytes = 4096;

std::string cluster_file(const std::string& folder) { return folder + "/cluster.json"; }
std::string admin_key_file(const std::string& folder) { return folder + "/admin.key"; }

Result<Cluster> parse_cluster(const Json& json) {
  Cluster cluster;
  cluster.name = json.value("name", "");
  TRY_VOID(check_node_name(cluster.name));
  const auto port = json.value("control_port", std::uint32_t{0});
  REQUIRE(port >= 1 && port <= 65'535, "its control_port is no port");
  cluster.control_port = static_cast<std::uint16_t>(port);
  TRY(const Address address,
      parse_address(Address{json.value("host", ""), cluster.control_port}.text()));
  cluster.host = address.host;
  cluster.credits = json.value("credits", false);
  return cluster;
}

Status write_cluster(const std::string& folder, const Cluster& cluster) {
  const Json json = {{"name", cluster.name},
                     {"host", cluster.host},
                     {"control_port", cluster.control_port},
                     {"credits", cluster.credits}};
  return write_private_file(cluster_file(folder), as_bytes(json.dump(2) + "\n"));
}

// One key that opens every route of the API, for this machine's user. An earlier one, of an init
// that was interrupted, is worthless from here on.
Status make_admin_key(const std::string& folder) {
  TRY(const auto store, coordinator::open_store(folder));
  TRY_VOID(store->revoke_key(kAdminKey));
  TRY(const coordinator::KeySecret key,
      coordinator::create_key(*store, {kAdminKey, {}, true, 0}, SystemClock().unix_seconds()));
  return write_private_file(admin_key_file(folder), as_bytes(key.text + "\n"));
}

struct Made {
  Cluster cluster;
  PublicKey key;
  std::string folder;
  bool was_there = false;
  bool switched = false;  // it has credits now, or has none any more
};

Result<Made> init(const InitOptions& options) {
  Made made;
  made.folder = data_folder(options.data_dir);
  const bool moves = options.name.empty();
  if (!moves) TRY_VOID(check_node_name(options.name));
  // Nothing of the folder may change under a server that runs.
  if (moves) TRY_VOID(need_cluster(made.folder));
  TRY(const auto lock, ServerFile::lock(made.folder));
  TRY(const auto before, read_cluster(made.folder));
  REQUIRE(moves || !before,
          "the folder " + made.folder + " holds the cluster " + before->name +
              " already; to give it another address: hearth init --address ADDRESS; for another "
              "cluster choose another --data-dir");
  TRY(const auto member, read_member_file(made.folder));
  REQUIRE(!member, "this machine is " + member->node +
                       " in another cluster; leave it first (hearth leave), or choose another "
                       "--data-dir");
  made.was_there = before.has_value();
  made.cluster = before.value_or(Cluster{options.name, "", kClusterPort});
  if (options.control_port != 0) made.cluster.control_port = options.control_port;
  made.cluster.credits = options.credits.value_or(made.cluster.credits);
  made.switched = before && before->credits != made.cluster.credits;
  if (!options.host.empty()) {
    made.cluster.host = options.host;
  } else if (!before) {
    TRY(made.cluster.host, own_host());
  }
  TRY(const Address address,
      parse_address(Address{made.cluster.host, made.cluster.control_port}.text()));
  made.cluster.host = address.host;
  if (before) TRY_VOID(check_own_address(made.cluster));
  TRY(const ServerIdentity identity, ServerIdentity::open(made.folder));
  made.key = identity.cluster.public_key();
  if (!before) TRY_VOID(make_admin_key(made.folder));
  // Last: with it the cluster is there.
  TRY_VOID(write_cluster(made.folder, made.cluster));
  return made;
}

void print_credits(const Made& made) {
  if (made.cluster.credits) {
    std::printf(
        "it runs with credits: who sends prompts pays, and who computes or checks earns. Nobody "
        "has any yet; while hearth serve runs: hearth ledger grant coordinator 1000000, for this "
        "machine's own prompts\n");
  } else if (made.switched) {
    std::printf("it has no credits any more: its ledger is a log only, and nobody pays\n");
  }
}

void print_moved(const Made& made, const std::string& address) {
  if (made.switched) {
    std::printf("cluster %s (%s), from the next start of hearth serve on:\n",
                made.cluster.name.c_str(), three_words(made.key).c_str());
    return print_credits(made);
  }
  std::printf(
      "cluster %s (%s) is at %s from the next start of hearth serve on\n"
      "members find it there by themselves where Avahi runs on both; on others, once: hearth join "
      "%s\n",
      made.cluster.name.c_str(), three_words(made.key).c_str(), address.c_str(), address.c_str());
}

}  // namespace

Result<Bytes> read_admin_key(const std::string& folder) {
  return read_private_file(admin_key_file(folder), kAdminKeyFileBytes);
}

Status check_admin_key(const std::string& folder) {
  const auto key = read_admin_key(folder);
  if (key.ok() || key.error().code == ErrorCode::kNotFound) return ok_status();
  return key.error();
}

Result<std::optional<Cluster>> read_cluster(const std::string& given) {
  const std::string path = cluster_file(data_folder(given));
  const auto bytes = read_private_file(path, kFileBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return std::optional<Cluster>();
  if (!bytes) return bytes.error();
  Result<Cluster> cluster = Error::invalid("no JSON");
  try {
    cluster = parse_cluster(Json::parse(as_text(*bytes)));
  } catch (const Json::exception&) {
    cluster = Error::invalid("no JSON of ours");
  }
  REQUIRE(cluster.ok(), path + " is damaged: " + cluster.error().message);
  return std::optional(std::move(*cluster));
}

Result<Cluster> need_cluster(const std::string& folder) {
  TRY(const auto cluster, read_cluster(folder));
  if (cluster) return *cluster;
  TRY(const auto member, read_member_file(folder));
  if (member) {
    return Error{ErrorCode::kNotFound, "this machine is " + member->node +
                                           " in another machine's cluster; that is to be done on "
                                           "its coordinator's machine"};
  }
  return Error{ErrorCode::kNotFound, "the data folder " + data_folder(folder) +
                                         " has no cluster that others could join; make one: hearth "
                                         "init NAME"};
}

Status check_own_address(const Cluster& cluster) {
  if (is_own_host(cluster.host)) return ok_status();
  const auto now = own_host();
  return Error{ErrorCode::kUnavailable, "the cluster " + cluster.name + " is dialled at " +
                                            cluster.host + ", which is no address of this machine" +
                                            (now.ok() ? ", but " + *now + " is" : std::string()) +
                                            "; if it has moved: hearth init --address " +
                                            (now.ok() ? *now : "ADDRESS")};
}

Result<std::shared_ptr<coordinator::Store>> open_cluster_store(const std::string& folder) {
  TRY_VOID(need_cluster(folder));
  return coordinator::open_store(data_folder(folder));
}

int run_init(const InitOptions& options) {
  const auto made = init(options);
  if (!made.ok()) return fail(made.error());
  const std::string address = Address{made->cluster.host, made->cluster.control_port}.text();
  if (options.json) {
    const Json json = {
        {"cluster", made->cluster.name},   {"fingerprint", fingerprint(made->key)},
        {"words", three_words(made->key)}, {"control", address},
        {"data_dir", made->folder},        {"admin_key_file", admin_key_file(made->folder)},
        {"credits", made->cluster.credits}};
    std::printf("%s\n", json.dump().c_str());
    return kExitDone;
  }
  if (made->was_there) {
    print_moved(*made, address);
    return kExitDone;
  }
  std::printf("cluster %s (%s): its keys are in %s, and %s is an admin key of its API\n",
              made->cluster.name.c_str(), three_words(made->key).c_str(), made->folder.c_str(),
              admin_key_file(made->folder).c_str());
  std::printf(
      "other machines will dial %s; open it, and the ports of their workers, in firewalls\n",
      address.c_str());
  print_credits(*made);
  std::printf("next:\n  hearth serve --model MODEL --stages 2\n  hearth token create\n");
  return kExitDone;
}

}  // namespace hearth::cli

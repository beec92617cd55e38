#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/fingerprint.h"
#include "cli/cluster/cluster.h"
#include "cli/home/cluster_file.h"
#include "cli/home/identity.h"
#include "cli/home/member.h"
#include "cli/home/own_address.h"
#include "cli/home/server_file.h"
#include "cli/process/paths.h"
#include "cli/process/service_manager.h"
#include "cli/terminal/exit_codes.h"
#include "coordinator/store/store.h"
#include "proto/address.h"
#include "proto/frame.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Made {
  Cluster cluster;
  PublicKey key;
  std::string folder;
  bool was_there = false;
  bool switched = false;  // the cluster has credits from now on, or no longer has them
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
  REQUIRE(moves || !before, "the folder ", made.folder, " holds the cluster ", before->name,
          " already; to change its address: hearth init --address ADDRESS; "
          "for a second cluster pass another --data-dir");
  TRY(const auto member, read_member_file(made.folder));
  REQUIRE(!member, "this machine is ", member->node,
          " in another cluster; leave that first (hearth leave), or pass another --data-dir");
  made.was_there = before.has_value();
  made.cluster = before.value_or(Cluster{options.name, "", kClusterPort});
  if (options.control_port != 0) made.cluster.control_port = options.control_port;
  made.cluster.credits = options.credits.value_or(made.cluster.credits);
  made.switched = before && before->credits != made.cluster.credits;
  if (!options.host.empty()) {
    made.cluster.host = options.host;
    made.cluster.follows = false;
  } else if (!before) {
    TRY(made.cluster.host, own_host());
    made.cluster.follows = true;
  }
  TRY(const Address address,
      parse_address(Address{made.cluster.host, made.cluster.control_port}.text()));
  made.cluster.host = address.host;
  TRY_VOID(check_own_address(made.cluster));
  TRY(const ServerIdentity identity, ServerIdentity::open(made.folder));
  made.key = identity.cluster.public_key();
  if (!before) {
    if (!options.store.empty()) TRY_VOID(coordinator::use_store_url(made.folder, options.store));
    TRY(const auto store, coordinator::open_store(made.folder));
    TRY_VOID(make_admin_key(made.folder, *store));
  }
  // Written last: only this file makes the folder a cluster's.
  TRY_VOID(write_cluster(made.folder, made.cluster));
  return made;
}

void print_credits(const Made& made) {
  if (made.cluster.credits) {
    std::printf(
        "the cluster has credits: accounts pay for prompts, and nodes earn by computing and "
        "auditing. All accounts are empty. To fund the prompts of this machine while hearth serve "
        "runs: hearth ledger grant coordinator 10000000\n");
  } else if (made.switched) {
    std::printf("credits are off: the ledger is only a log, and prompts are free\n");
  }
}

int print_moved(const Made& made, const std::string& address) {
  if (made.switched) {
    std::printf("cluster %s (%s), as of the next start of hearth serve:\n",
                made.cluster.name.c_str(), three_words(made.key).c_str());
    print_credits(made);
    return kExitDone;
  }
  std::printf(
      "cluster %s (%s) is at %s as of the next start of hearth serve\nmembers find it by "
      "themselves where Avahi runs on both machines; on other members, once: hearth join %s\n",
      made.cluster.name.c_str(), three_words(made.key).c_str(), address.c_str(), address.c_str());
  return kExitDone;
}

int print_next(const InitOptions& options, const Made& made, const std::string& token) {
  const Services services = find_services(made.folder);
  const bool is_service = services == Services::kOfThisFolder;
  std::printf("next:\n");
  if (is_service) {
    std::printf(
        "  sudo hearth-service pull MODEL    (or name models in /etc/hearth/hearth.toml)\n"
        "  sudo systemctl enable --now hearth-server    (also after each restart of this "
        "machine)\n");
  } else {
    std::printf("  hearth serve --model MODEL\n");
  }
  if (services == Services::kOther) {
    std::printf(
        "  or, for a server that starts again with this machine: sudo hearth-service init NAME\n");
  }
  if (token.empty())
    return succeed(is_service ? "  sudo hearth-service token create" : "  hearth token create");
  succeed("on " + std::to_string(options.invite) +
          " other machines, within a day:\n  hearth join " + token);
  show_join_code(stdout, token);
  return kExitDone;
}

}  // namespace

Result<int> run_init(const InitOptions& options) {
  REQUIRE(options.invite == 0 || !options.name.empty(),
          "--invite is for a new cluster; for more machines of this one: hearth token create");
  REQUIRE(options.store.empty() || !options.name.empty(),
          "--store is for a new cluster; to move the rows of this one: hearth store migrate");
  TRY(const Made made, init(options));
  std::string token;
  if (options.invite > 0) {
    TokenOptions wish;
    wish.uses = options.invite;
    wish.data_dir = options.data_dir;
    TRY(token, make_join_token(wish));
  }
  const std::string address = Address{made.cluster.host, made.cluster.control_port}.text();
  if (options.json) {
    OrderedJson json = {
        {"cluster", made.cluster.name},   {"fingerprint", fingerprint(made.key)},
        {"words", three_words(made.key)}, {"control", address},
        {"data_dir", made.folder},        {"admin_key_file", admin_key_file(made.folder)},
        {"credits", made.cluster.credits}};
    if (!token.empty()) json["join_token"] = token;
    return succeed(json.dump());
  }
  if (made.was_there) return print_moved(made, address);
  std::printf("cluster %s (%s): its keys are in %s, the admin key of its API is %s\n",
              made.cluster.name.c_str(), three_words(made.key).c_str(), made.folder.c_str(),
              admin_key_file(made.folder).c_str());
  std::printf("other machines connect to %s; open this port and the workers' ports in firewalls\n",
              address.c_str());
  print_credits(made);
  return print_next(options, made, token);
}

}  // namespace hearth::cli

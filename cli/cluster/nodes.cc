#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/private_file.h"
#include "cli/cluster/cluster.h"
#include "cli/home/cluster_file.h"
#include "cli/home/identity.h"
#include "cli/home/member.h"
#include "cli/home/server_file.h"
#include "cli/process/paths.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/table.h"
#include "coordinator/membership/members.h"
#include "coordinator/membership/set_back.h"
#include "coordinator/store/store.h"
#include "proto/roster.h"

namespace hearth::cli {
namespace {

using coordinator::NodeRecord;
using OrderedJson = nlohmann::ordered_json;

constexpr auto kFollowPatience = std::chrono::seconds(5);
constexpr std::size_t kShownKeyDigits = 16;  // --json has all

// The roster that this folder holds, of its own cluster or of the one it has joined.
Result<Roster> read_roster(const std::string& folder) {
  PublicKey cluster;
  TRY(const auto member, read_member_file(folder));
  if (member) {
    cluster = member->cluster;
  } else {
    const auto key = read_key_file(folder + "/cluster.key");
    if (!key && key.error().code == ErrorCode::kNotFound) {
      return Error::of(ErrorCode::kNotFound, "the data folder ", folder,
                       " belongs to no cluster; create one (hearth init "
                       "NAME) or join one (hearth join TOKEN)");
    }
    if (!key) return key.error();
    cluster = key->public_key();
  }
  TRY(const auto file, RosterFile::open(folder, cluster));
  const auto roster = file->book()->roster();
  if (roster == nullptr) {
    return Error{ErrorCode::kNotFound,
                 "there is no roster yet; the first start of the server creates it: hearth serve "
                 "--model MODEL"};
  }
  return *roster;
}

// When a node joined, and its owner. Nothing for local workers, and on a machine that does not know
// it.
NodeRecord record_of(const std::vector<NodeRecord>& nodes, const PublicKey& key) {
  const auto found = std::ranges::find(nodes, key, &NodeRecord::key);
  return found != nodes.end() ? *found : NodeRecord();
}

Result<std::vector<NodeRecord>> stored_nodes(const std::string& folder) {
  if (!coordinator::has_store(folder)) return std::vector<NodeRecord>();
  TRY(const auto store, coordinator::open_store(folder));
  return store->nodes();
}

Result<PublicKey> revoke(const NodesOptions& options) {
  TRY(const auto store, open_cluster_store(options.data_dir));
  return coordinator::remove_member(*store, options.name);
}

Result<coordinator::Restored> restore(const NodesOptions& options) {
  const std::string folder = data_folder(options.data_dir);
  if (!std::filesystem::exists(folder + "/cluster.key")) TRY_VOID(need_cluster(folder));
  TRY(const auto lock, ServerFile::lock(folder));
  TRY(const ServerIdentity identity, ServerIdentity::open(folder));
  TRY(const auto store, coordinator::open_store(folder));
  std::vector<Roster> rosters = identity.roster->evidence();
  if (const auto newest = identity.roster->book()->roster(); newest != nullptr) {
    rosters.push_back(*newest);
  }
  // No store has the workers of this machine's own server.
  return coordinator::restore_members(
      *store, rosters, [&](const RosterEntry& entry) { return has_local_key(folder, entry.key); },
      SystemClock().unix_seconds());
}

}  // namespace

bool wait_for_roster(const std::string& given, const PublicKey& key, bool in) {
  const std::string folder = data_folder(given);
  const auto deadline = std::chrono::steady_clock::now() + kFollowPatience;
  while (std::chrono::steady_clock::now() < deadline && read_server_file(folder).ok()) {
    const auto roster = read_roster(folder);
    if (roster.ok() && (roster->find(key) != nullptr) == in) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

Status check_name_is_free(const std::string& given, const std::string& name) {
  const auto roster = read_roster(data_folder(given));
  if (!roster.ok() && roster.error().code == ErrorCode::kNotFound) return ok_status();
  if (!roster.ok()) return roster.error();
  REQUIRE(roster->find(name) == nullptr, "another node is named ", name,
          " already; let the new node ask under another name: hearth join ... --name NAME");
  return ok_status();
}

Result<int> run_nodes(const NodesOptions& options) {
  const std::string folder = data_folder(options.data_dir);
  TRY(const Roster roster, read_roster(folder));
  TRY(const auto stored, stored_nodes(folder));
  if (options.json) {
    OrderedJson nodes = OrderedJson::array();
    for (const RosterEntry& entry : roster.entries) {
      const NodeRecord record = record_of(stored, entry.key);
      nodes.push_back(
          {{"name", entry.name},
           {"role", role_name(entry.role)},
           {"key", entry.key.hex()},
           {"joined", record.enrolled == 0 ? OrderedJson() : OrderedJson(record.enrolled)}});
      if (!record.owner.empty()) nodes.back()["owner"] = record.owner;
    }
    const OrderedJson json = {
        {"cluster", fingerprint(roster.cluster)}, {"number", roster.number}, {"nodes", nodes}};
    return succeed(json.dump());
  }
  TRY(const auto cluster, read_cluster(options.data_dir));
  TRY(const auto member, read_member_file(folder));
  MemberFile shown;
  shown.cluster = roster.cluster;
  shown.cluster_name = cluster ? cluster->name : member ? member->cluster_name : "";
  std::printf("cluster %s, roster %llu\n", cluster_text(shown).c_str(),
              static_cast<unsigned long long>(roster.number));
  Table table({"NAME", "ROLE", "JOINED", "KEY", "OWNER"});
  std::vector<RosterEntry> entries = roster.entries;
  std::ranges::sort(entries, {}, &RosterEntry::name);
  for (const RosterEntry& entry : entries) {
    const NodeRecord record = record_of(stored, entry.key);
    table.add({entry.name, std::string(role_name(entry.role)),
               record.enrolled == 0 ? "-" : date_text(record.enrolled),
               entry.key.hex().substr(0, kShownKeyDigits),
               record.owner.empty() ? "-" : record.owner});
  }
  return succeed(boost::algorithm::join(table.lines(), "\n"));
}

Result<int> run_nodes_rm(const NodesOptions& options) {
  const std::string folder = data_folder(options.data_dir);
  TRY(const PublicKey key, revoke(options));
  const bool out = wait_for_roster(folder, key, false);
  if (!out && read_server_file(folder).ok()) {
    return Error::of(ErrorCode::kUnavailable, options.name,
                     " is revoked, but the running server could not inform the other members yet; "
                     "hearth logs shows why");
  }
  if (options.json) return succeed(OrderedJson{{"removed", options.name}}.dump());
  std::fprintf(stderr, "removed: %s%s\n", options.name.c_str(),
               out ? "" : "; the other members learn this at the server's next start");
  return kExitDone;
}

Result<int> run_nodes_restore(const NodesOptions& options) {
  TRY(const coordinator::Restored restored, restore(options));
  if (options.json) {
    const OrderedJson json = {
        {"removed", restored.removed}, {"added", restored.added}, {"number", restored.number}};
    return succeed(json.dump());
  }
  for (const std::string& name : restored.removed) {
    std::fprintf(stderr, "removed again: %s\n", name.c_str());
  }
  for (const std::string& name : restored.added) {
    std::fprintf(stderr,
                 "added again: %s. This node joined after the backup, so it has no owner, and it "
                 "is a newcomer unless the ledger knows its key. To change that: hearth nodes rm "
                 "%s, then hearth join on the node\n",
                 name.c_str(), name.c_str());
  }
  std::fprintf(stderr,
               "the store agrees with the newest roster; all join tokens are revoked, and API keys "
               "that were revoked after the copy was made are valid again: hearth key list, hearth "
               "key revoke NAME\nnext: hearth serve\n");
  return kExitDone;
}

Result<int> run_leave(const NodesOptions& options) {
  const auto member = read_member_file(data_folder(options.data_dir));  // gone afterwards
  TRY_VOID(leave_cluster(options.data_dir, options.here_only));
  if (options.json) {
    OrderedJson out;
    out["left"] = member.ok() && *member ? OrderedJson((*member)->node) : OrderedJson(nullptr);
    out["coordinator_told"] = !options.here_only;
    return succeed(out.dump());
  }
  std::fprintf(stderr, options.here_only
                           ? "this machine has left the cluster, but the coordinator does not "
                             "know; on the coordinator's machine: hearth nodes rm NAME\n"
                           : "left the cluster; this machine's key is deleted\n");
  return kExitDone;
}

}  // namespace hearth::cli

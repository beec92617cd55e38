#include "cli/cluster/nodes.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/limits.h"
#include "base/private_file.h"
#include "cli/cluster/init.h"
#include "cli/home/identity.h"
#include "cli/home/member.h"
#include "cli/home/server_file.h"
#include "cli/joined_file.h"
#include "cli/process/paths.h"
#include "cli/terminal/date_text.h"
#include "cli/terminal/exit_codes.h"
#include "coordinator/membership/set_back.h"
#include "coordinator/store/store.h"
#include "proto/roster.h"

namespace hearth::cli {
namespace {

using coordinator::NodeRecord;
using Json = nlohmann::ordered_json;

constexpr auto kFollowPatience = std::chrono::seconds(5);

// The roster that this folder holds, of its own cluster or of the one it has joined.
Result<Roster> read_roster(const std::string& folder) {
  PublicKey cluster;
  TRY(const auto member, read_member_file(folder));
  if (member) {
    cluster = member->cluster;
  } else {
    const auto key = read_key_file(folder + "/cluster.key");
    if (!key && key.error().code == ErrorCode::kNotFound) {
      return Error{ErrorCode::kNotFound,
                   "the data folder " + folder +
                       " belongs to no cluster; make one (hearth init NAME) or join one (hearth "
                       "join TOKEN)"};
    }
    if (!key) return key.error();
    cluster = key->public_key();
  }
  TRY(const auto file, RosterFile::open(folder, cluster));
  const auto roster = file->book()->roster();
  if (roster == nullptr) {
    return Error{ErrorCode::kNotFound,
                 "there is no roster yet; the first start of the server makes "
                 "it: hearth serve --model MODEL"};
  }
  return *roster;
}

// When a node joined and whose it is; nothing where this machine is not told, or for workers of the
// server.
NodeRecord record_of(const std::vector<NodeRecord>& nodes, const PublicKey& key) {
  for (const NodeRecord& node : nodes) {
    if (node.key == key) return node;
  }
  return {};
}

Result<std::vector<NodeRecord>> stored_nodes(const std::string& folder) {
  if (!std::filesystem::exists(folder + "/hearth.db")) return std::vector<NodeRecord>();
  TRY(const auto store, coordinator::open_store(folder));
  return store->nodes();
}

Result<PublicKey> revoke(const NodesOptions& options) {
  TRY(const auto store, open_cluster_store(options.data_dir));
  TRY(const auto nodes, store->nodes());
  for (const NodeRecord& node : nodes) {
    if (node.revoked || node.name != options.name) continue;
    TRY_VOID(store->revoke_node(node.key));
    return node.key;
  }
  return Error{ErrorCode::kNotFound, "no node that has joined is named " + options.name +
                                         "; hearth nodes shows them (this machine's own workers go "
                                         "with hearth serve)"};
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
  TRY(const auto said, read_joined_file(folder));
  // Workers of this machine's own server are in no store.
  return coordinator::restore_members(
      *store, rosters, [&](const RosterEntry& entry) { return has_local_key(folder, entry.key); },
      said, SystemClock().unix_seconds());
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
  REQUIRE(roster->find(name) == nullptr, "another node is named " + name +
                                             " already; the new one may ask under another: hearth "
                                             "join ... --name NAME");
  return ok_status();
}

int run_nodes(const NodesOptions& options) {
  const std::string folder = data_folder(options.data_dir);
  const auto roster = read_roster(folder);
  if (!roster.ok()) return fail(roster.error());
  const auto stored = stored_nodes(folder);
  if (!stored.ok()) return fail(stored.error());
  Json nodes = Json::array();
  for (const RosterEntry& entry : roster->entries) {
    const NodeRecord record = record_of(*stored, entry.key);
    nodes.push_back({{"name", entry.name},
                     {"role", role_name(entry.role)},
                     {"key", entry.key.hex()},
                     {"joined", record.enrolled == 0 ? Json() : Json(record.enrolled)}});
    if (!record.owner.empty()) nodes.back()["owner"] = record.owner;
  }
  if (options.json) {
    const Json json = {
        {"cluster", fingerprint(roster->cluster)}, {"number", roster->number}, {"nodes", nodes}};
    std::printf("%s\n", json.dump().c_str());
    return kExitDone;
  }
  std::printf("cluster %s, roster %llu\n", three_words(roster->cluster).c_str(),
              static_cast<unsigned long long>(roster->number));
  std::printf("%-24s%-13s%-18s%-66s%s\n", "NAME", "ROLE", "JOINED", "KEY", "OWNER");
  for (const RosterEntry& entry : roster->entries) {
    const NodeRecord record = record_of(*stored, entry.key);
    std::printf("%-24s%-13s%-18s%-66s%s\n", entry.name.c_str(),
                std::string(role_name(entry.role)).c_str(),
                record.enrolled == 0 ? "-" : date_text(record.enrolled).c_str(),
                entry.key.hex().c_str(), record.owner.empty() ? "-" : record.owner.c_str());
  }
  return kExitDone;
}

int run_nodes_rm(const NodesOptions& options) {
  const std::string folder = data_folder(options.data_dir);
  const auto key = revoke(options);
  if (!key.ok()) return fail(key.error());
  const bool out = wait_for_roster(folder, *key, false);
  if (!out && read_server_file(folder).ok()) {
    return fail({ErrorCode::kUnavailable,
                 options.name + " is revoked, but the server that runs has not said so to the "
                                "others yet; its log says why"});
  }
  if (options.json) {
    std::printf("%s\n", Json{{"removed", options.name}}.dump().c_str());
  } else {
    std::fprintf(stderr, "removed: %s%s\n", options.name.c_str(),
                 out ? "" : "; the next start of the server tells the others");
  }
  return kExitDone;
}

int run_nodes_restore(const NodesOptions& options) {
  const auto restored = restore(options);
  if (!restored.ok()) return fail(restored.error());
  if (options.json) {
    const Json json = {{"removed", restored->removed},
                       {"added", restored->added},
                       {"unknown", restored->unknown},
                       {"number", restored->number}};
    std::printf("%s\n", json.dump().c_str());
    return kExitDone;
  }
  for (const std::string& name : restored->removed) {
    std::fprintf(stderr, "out again: %s\n", name.c_str());
  }
  for (const std::string& name : restored->added) {
    std::fprintf(stderr, "in again: %s\n", name.c_str());
  }
  for (const std::string& name : restored->unknown) {
    std::fprintf(stderr,
                 "nothing here says whose machine %s is, or that it was a newcomer: it is its own "
                 "and vouched for now; otherwise: hearth nodes rm %s\n",
                 name.c_str(), name.c_str());
  }
  std::fprintf(stderr,
               "the store agrees with the newest roster; no join token is good any more, and API "
               "keys that were revoked since the copy are good again: hearth key list, hearth key "
               "revoke NAME\nnext: hearth serve\n");
  return kExitDone;
}

int run_leave(const NodesOptions& options) {
  const auto member = read_member_file(data_folder(options.data_dir));  // gone afterwards
  const Status left = leave_cluster(options.data_dir, options.here_only);
  if (!left) return fail(left.error());
  if (options.json) {
    Json out;
    out["left"] = member.ok() && *member ? Json((*member)->node) : Json(nullptr);
    out["coordinator_told"] = !options.here_only;
    std::printf("%s\n", out.dump().c_str());
    return kExitDone;
  }
  std::fprintf(stderr, options.here_only
                           ? "forgotten here; on the coordinator's machine: hearth nodes rm NAME\n"
                           : "left the cluster; this machine's key is gone\n");
  return kExitDone;
}

}  // namespace hearth::cli

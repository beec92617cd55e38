#include "cli/home/member.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fingerprint.h"
#include "base/hex.h"
#include "base/limits.h"
#include "base/private_file.h"
#include "cli/home/announcements.h"
#include "cli/home/cluster_file.h"
#include "cli/home/coordinator_finder.h"
#include "cli/home/own_address.h"
#include "cli/home/server_file.h"
#include "cli/process/paths.h"
#include "coordinator/client/member_link.h"
#include "proto/address.h"
#include "proto/frame.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMemberFileBytes = 16 * limits::kKiB;
constexpr auto kLocalPatience = std::chrono::seconds(5);
constexpr auto kInquiryPatience = std::chrono::seconds(5);
constexpr auto kMemberPatience = std::chrono::seconds(10);  // with each address of a coordinator
constexpr auto kRestartPatience = std::chrono::seconds(3);  // with one that is ending
constexpr std::uint32_t kUnnamedWorkers = 64;               // of one folder

std::string member_file(const std::string& folder) { return folder + "/member.json"; }
std::string node_key_file(const std::string& folder) { return folder + "/node.key"; }
std::string api_key_file(const std::string& folder) { return folder + "/api.key"; }
std::string leaving_file(const std::string& folder) { return folder + "/leaving"; }

Result<MemberFile> parse_member_file(std::string_view text) try {
  const Json json = Json::parse(text);
  MemberFile member;
  const auto cluster = from_hex(json.value("cluster", ""));
  REQUIRE(cluster.has_value(), "the field cluster is missing");
  TRY(member.cluster, PublicKey::parse(*cluster));
  member.node = json.value("node", "");
  TRY_VOID(check_node_name(member.node));
  member.coordinators = json.value("coordinators", std::vector<std::string>());
  REQUIRE(!member.coordinators.empty() && member.coordinators.size() <= limits::kRosterAddresses,
          "coordinators must list 1 to 4 addresses");
  for (const std::string& address : member.coordinators) TRY_VOID(parse_address(address));
  TRY(member.role, parse_role(json.value("role", "worker")));
  member.cluster_name = json.value("name", "");
  if (!member.cluster_name.empty()) TRY_VOID(check_node_name(member.cluster_name));
  member.api = json.value("api", "");
  if (!member.api.empty()) TRY_VOID(parse_address(member.api));
  return member;
} catch (const Json::exception&) {
  return Error::invalid("the file is not the JSON that hearth writes");
}

Status write_member_file(const std::string& folder, const MemberFile& member) {
  const Json json = {{"cluster", member.cluster.hex()},
                     {"node", member.node},
                     {"coordinators", member.coordinators},
                     {"role", role_name(member.role)},
                     {"api", member.api},
                     {"name", member.cluster_name}};
  return write_private_file(member_file(folder), as_bytes(json.dump(2) + "\n"));
}

Result<JoinToken> read_local_token(const std::string& folder) {
  auto text = read_private_file(local_token_file(folder), kMemberFileBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return Error::of(ErrorCode::kUnavailable, "no server runs with the data folder ", folder,
                     ", and it belongs to no cluster: start a server (hearth serve --model MODEL), "
                     "pass its folder as --data-dir, or join a cluster (hearth join TOKEN)");
  }
  if (!text) return text.error();
  return parse_join_token(as_text(*text));
}

// A worker that belongs to the server of its data folder.
class LocalMember final : public Member {
 public:
  static Result<std::unique_ptr<Member>> enter(const std::string& folder,
                                               const std::string& given) {
    TRY(const JoinToken token, read_local_token(folder));
    if (!given.empty()) return enter_as(folder, given, token, kRestartPatience);
    // The worker has the same name at each start, so an earlier start leaves nothing in the roster.
    auto entered = enter_as(folder, host_name(), token, {});
    for (std::uint32_t number = 2; number <= kUnnamedWorkers && is_taken(entered); ++number) {
      entered = enter_as(folder, host_name() + "-" + std::to_string(number), token, {});
    }
    return entered;
  }

  // Whether another worker of this machine or another node of the cluster has the name.
  static bool is_taken(const Result<std::unique_ptr<Member>>& entered) {
    return !entered.ok() && (entered.error().code == ErrorCode::kRefused ||
                             entered.error().code == ErrorCode::kInvalidInput);
  }

  static Result<std::unique_ptr<Member>> enter_as(const std::string& folder,
                                                  const std::string& name, const JoinToken& token,
                                                  std::chrono::milliseconds patience) {
    TRY_VOID(check_node_name(name));
    TRY(const auto cluster, read_cluster(folder));
    TRY(Descriptor lock, lock_worker(folder, name, patience));
    TRY(const SecretKey key, own_key_file(local_key_file(folder, name)));
    auto member = std::make_unique<LocalMember>();
    member->lock_ = std::move(lock);
    member->folder_ = folder;
    member->name_ = name;
    if (cluster) member->host_ = cluster->host;
    member->key_ = key;
    TRY(member->identity_, TlsIdentity::make(key));
    TRY_VOID(member->enrol(token));
    return std::unique_ptr<Member>(std::move(member));
  }

  Result<std::string> coordinator() override {
    TRY(const JoinToken token, read_local_token(folder_));
    if (token.id != token_id_) TRY_VOID(enrol(token));
    return token.addresses.front();
  }
  std::vector<std::string> coordinators() override {
    const auto token = read_local_token(folder_);
    return token.ok() ? token->addresses : std::vector<std::string>();
  }
  Result<std::string> listen_address() const override {
    return Address{host_.empty() ? "127.0.0.1" : host_, 0}.text();
  }
  bool beyond_loopback() const override { return !host_.empty(); }

 private:
  Status enrol(const JoinToken& token) {
    TRY(const node::Enrolled enrolled,
        node::enrol(token, identity_, {name_, Role::kWorker, {}}, kLocalPatience));
    // It is not stored in the folder, whose roster is the server's.
    if (roster_ == nullptr) {
      TRY(roster_, RosterFile::open("", enrolled.cluster));
    }
    roster_->take(enrolled.roster);
    token_id_ = token.id;
    return ok_status();
  }

  std::string folder_;
  std::string host_;      // of the server's cluster; empty: this machine alone
  std::string token_id_;  // that was used last
};

// A worker of a machine that has joined.
class JoinedMember final : public Member {
 public:
  static Result<std::unique_ptr<Member>> enter(const std::string& folder, const std::string& name,
                                               const MemberFile& file) {
    REQUIRE(name.empty() || name == file.node, "this machine is ", file.node,
            " in its cluster, not ", name,
            "; omit --name, or leave the cluster first (hearth leave)");
    REQUIRE(file.role == Role::kWorker, "this machine has joined as ", role_name(file.role),
            ", which cannot serve; to serve, leave (hearth leave) and join with a worker token");
    TRY(const SecretKey key, read_key_file(node_key_file(folder)));
    auto member = std::make_unique<JoinedMember>();
    TRY(member->lock_, lock_worker(folder, file.node, kRestartPatience));
    member->name_ = file.node;
    member->key_ = key;
    CoordinatorFinderOptions finder;
    finder.cluster = file.cluster;
    finder.addresses = file.coordinators;
    finder.reread = [folder] {
      const auto now = read_member_file(folder);
      return now.ok() && *now ? (*now)->coordinators : std::vector<std::string>();
    };
    finder.keep = [folder](const std::vector<std::string>& addresses) {
      auto now = read_member_file(folder);
      if (!now.ok() || !*now) return;
      (*now)->coordinators = addresses;
      const Status kept = write_member_file(folder, **now);
      if (!kept) spdlog::warn("cannot store the coordinator's address: {}", kept.error().message);
    };
    finder.search = [] {
      auto found = discover_clusters();
      return found.ok() ? std::move(*found) : std::vector<FoundCluster>();
    };
    member->finder_.emplace(std::move(finder));
    TRY(member->identity_, TlsIdentity::make(key));
    TRY(member->roster_, RosterFile::open(folder, file.cluster));
    const auto roster = member->roster_->book()->roster();
    if (roster != nullptr && roster->find(key.public_key()) == nullptr) return removed(folder);
    return std::unique_ptr<Member>(std::move(member));
  }

  Result<std::string> coordinator() override { return finder_->next(); }
  bool tried_all() const override { return finder_->tried_all(); }
  std::vector<std::string> coordinators() override { return finder_->all(); }
  void on_reached(const Roster& roster) override { finder_->reached(roster); }
  Result<std::string> listen_address() const override {
    Result<std::string> host = Error::invalid("this machine knows no address of the coordinator");
    for (const std::string& coordinator : finder_->known()) {
      TRY(const Address address, parse_address(coordinator));
      host = own_host_towards(address);
      if (host.ok()) return Address{*host, 0}.text();
    }
    return host;
  }
  bool beyond_loopback() const override { return true; }

 private:
  std::optional<CoordinatorFinder> finder_;
};

Error not_for_members(const std::string& folder) {
  return Error::invalid("the folder ", folder,
                        " belongs to a server with its own cluster; pass another --data-dir");
}

Error not_joined(const std::string& folder) {
  return Error::of(ErrorCode::kNotFound, "this machine is in no cluster with the data folder ",
                   folder, "; join one with hearth join TOKEN");
}

// The values with which a machine joins the cluster with this fingerprint (empty: any) under a
// name.
Result<TlsIdentity> identity_to_join(const std::string& folder, const std::string& cluster,
                                     const std::string& name) {
  TRY_VOID(check_node_name(name));
  TRY_VOID(make_private_folder(folder));
  if (std::filesystem::exists(folder + "/cluster.key")) return not_for_members(folder);
  TRY(const auto before, read_member_file(folder));
  REQUIRE(!before || fingerprint(before->cluster) == cluster,
          "this machine is in another cluster (", cluster_text(*before),
          ") already; leave that first (hearth leave), or pass another --data-dir");
  REQUIRE(!before || before->node == name, "this machine is ", before->node,
          " in this cluster already, not ", name);
  TRY(const SecretKey key, own_key_file(node_key_file(folder)));
  return TlsIdentity::make(key);
}

Result<MemberFile> keep_membership(const std::string& folder, const node::Enrolled& enrolled,
                                   const std::string& name,
                                   const std::vector<std::string>& coordinators) {
  // A worker that was still running when this machine left may have stored another roster.
  std::error_code ignored;
  TRY(const auto before, read_member_file(folder));
  if (!before) std::filesystem::remove(folder + "/roster", ignored);
  TRY(const auto roster, RosterFile::open(folder, enrolled.cluster));
  roster->take(enrolled.roster);
  if (!enrolled.api_key.empty()) {
    TRY_VOID(write_private_file(api_key_file(folder), as_bytes(enrolled.api_key + "\n")));
  }
  MemberFile member{enrolled.cluster,     name, coordinators, enrolled.role, enrolled.api_address,
                    enrolled.cluster_name};
  TRY_VOID(write_member_file(folder, member));
  return member;
}

}  // namespace

std::string cluster_text(const MemberFile& member) {
  const std::string words = three_words(member.cluster);
  return member.cluster_name.empty() ? words : member.cluster_name + " (" + words + ")";
}

Result<std::optional<MemberFile>> read_member_file(const std::string& given) {
  const std::string path = member_file(data_folder(given));
  const auto bytes = read_private_file(path, kMemberFileBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return std::optional<MemberFile>();
  if (!bytes) return bytes.error();
  auto member = parse_member_file(as_text(*bytes));
  REQUIRE(member.ok(), path, " is damaged (", member.error().message,
          "); leave the cluster (hearth leave --here-only) and join it again");
  return std::optional(std::move(*member));
}

std::optional<MemberApi> read_member_api(const std::string& given) {
  const std::string folder = data_folder(given);
  const auto member = read_member_file(folder);
  if (!member.ok() || !*member || (*member)->api.empty()) return std::nullopt;
  const auto key = read_private_file(api_key_file(folder), kMemberFileBytes);
  if (!key.ok()) return std::nullopt;
  const std::string_view text = as_text(*key);
  return MemberApi{(*member)->api, std::string(text.substr(0, text.find('\n')))};
}

std::optional<std::string> open_own_link(const std::string& given) {
  const std::string folder = data_folder(given);
  const auto member = read_member_file(folder);
  if (!member.ok() || !*member || (*member)->role != Role::kWorker) return std::nullopt;
  const auto key = read_key_file(node_key_file(folder));
  if (!key.ok()) return std::nullopt;
  auto identity = TlsIdentity::make(*key);
  const auto file = RosterFile::open(folder, (*member)->cluster);
  const auto roster = file.ok() ? (*file)->book()->roster() : nullptr;
  if (!identity.ok() || roster == nullptr) return std::nullopt;
  for (const RosterEntry& entry : roster->entries) {
    if (entry.role != Role::kCoordinator) continue;
    const auto base =
        client::open_member_link({(*member)->coordinators, std::move(*identity), entry.key});
    return base.ok() ? std::optional(*base) : std::nullopt;
  }
  return std::nullopt;
}

Result<MemberFile> join_cluster(const std::string& given, const JoinToken& token,
                                const std::string& name, std::optional<Role> role) {
  const std::string folder = data_folder(given);
  TRY(const TlsIdentity identity, identity_to_join(folder, token.fingerprint, name));
  TRY(const node::Enrolled enrolled,
      node::enrol(token, identity, {name, role, {}}, kMemberPatience));
  return keep_membership(folder, enrolled, name, token.addresses);
}

Result<MemberFile> find_coordinator_at(const std::string& given, const std::string& address) {
  const std::string folder = data_folder(given);
  TRY(const auto before, read_member_file(folder));
  if (!before) return not_joined(folder);
  // A member needs no token to learn this; the machine there first proves that it is the
  // coordinator.
  JoinToken token;
  token.fingerprint = fingerprint(before->cluster);
  token.addresses = {address};
  auto found = join_cluster(folder, token, before->node, before->role);
  if (!found.ok() && found.error().code == ErrorCode::kInvalidInput) {
    return Error::invalid("the machine at ", address,
                          " is not the coordinator of this machine's cluster (",
                          three_words(before->cluster),
                          "), or this machine was removed from it (to rejoin: hearth leave "
                          "--here-only, then hearth join with a new token)");
  }
  return found;
}

Result<MemberFile> wait_to_join(const std::string& given, const node::Waiting& waiting,
                                const std::string& name) {
  const std::string folder = data_folder(given);
  const std::string expected = waiting.cluster ? fingerprint(*waiting.cluster) : std::string();
  TRY(const TlsIdentity identity, identity_to_join(folder, expected, name));
  TRY(const node::Enrolled enrolled, node::wait_to_enrol(waiting, identity, name, kMemberPatience));
  return keep_membership(folder, enrolled, name, {waiting.address});
}

Status leave_cluster(const std::string& given, bool here_only) {
  const std::string folder = data_folder(given);
  if (std::filesystem::exists(folder + "/cluster.key")) return not_for_members(folder);
  if (!here_only) {
    TRY(const auto member, read_member_file(folder));
    if (!member) return not_joined(folder);
    TRY(const SecretKey key, read_key_file(node_key_file(folder)));
    TRY(const TlsIdentity identity, TlsIdentity::make(key));
    TRY(const auto roster, RosterFile::open(folder, member->cluster));
    // The coordinator ends a worker that runs here before these files are deleted, and the worker
    // looks for the reason.
    TRY_VOID(write_private_file(leaving_file(folder), {}));
    const Status left =
        node::leave({member->coordinators, identity, roster->book(), kMemberPatience});
    std::error_code ignored;
    if (!left) std::filesystem::remove(leaving_file(folder), ignored);
    TRY_VOID(left);
  }
  std::error_code error;
  // An order of this cluster's admin means nothing in the next one.
  if (const auto member = read_member_file(folder); member && *member) {
    std::filesystem::remove(admin_order_file(folder, (*member)->node), error);
  }
  // The key is deleted last: without it, none of this could be tried again.
  bool any = false;
  for (const std::string& path : {member_file(folder), folder + "/roster", api_key_file(folder),
                                  node_key_file(folder), leaving_file(folder)}) {
    any = std::filesystem::remove(path, error) || any;
    if (error) return Error::of(ErrorCode::kIo, "removing ", path, ": ", error.message());
  }
  if (!any) return not_joined(folder);
  return ok_status();
}

Result<node::Inquirer> own_inquirer(const std::string& given) {
  const std::string folder = data_folder(given);
  node::Inquirer own;
  own.patience = kInquiryPatience;
  PublicKey cluster;
  TRY(const auto member, read_member_file(folder));
  if (member && member->role != Role::kWorker) {
    return Error::of(ErrorCode::kRefused, "this machine has joined as ", role_name(member->role),
                     ", which has no data links; run this on a worker or on the server");
  }
  if (member) {
    cluster = member->cluster;
    own.addresses = member->coordinators;
  } else {
    const auto running = read_server_file(folder);
    if (!running.ok()) {
      return Error::of(ErrorCode::kNotFound, "no server runs with the data folder ", folder,
                       ", and it belongs to no cluster; pass another --data-dir");
    }
    TRY(const SecretKey signer, read_key_file(folder + "/cluster.key"));
    cluster = signer.public_key();
    own.addresses = {running->control};
  }
  TRY(const SecretKey key, read_key_file(node_key_file(folder)));
  TRY(const auto roster, RosterFile::open(folder, cluster));
  own.roster = roster->book();
  if (!own.roster->find(key.public_key())) return Member::removed(folder);
  TRY(own.identity, TlsIdentity::make(key));
  return own;
}

Error Member::removed(const std::string& given) {
  const std::string folder = data_folder(given);
  std::error_code ignored;
  const auto has = [&](const std::string& path) { return std::filesystem::exists(path, ignored); };
  const bool has_left = !has(member_file(folder)) && !has(folder + "/cluster.key");
  if (has_left || has(leaving_file(folder))) {
    return {ErrorCode::kRefused,
            "this machine has left the cluster; to rejoin: hearth join with a new token"};
  }
  return {ErrorCode::kRefused,
          "this machine was removed from the cluster; to rejoin: hearth leave --here-only, then "
          "hearth join with a new token"};
}

Result<std::unique_ptr<Member>> Member::enter(const std::string& given, const std::string& name) {
  const std::string folder = data_folder(given);
  TRY(const auto joined, read_member_file(folder));
  if (joined) return JoinedMember::enter(folder, name, *joined);
  return LocalMember::enter(folder, name);
}

}  // namespace hearth::cli

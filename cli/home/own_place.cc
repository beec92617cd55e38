#include "cli/home/own_place.h"

#include <chrono>

#include "base/private_file.h"
#include "cli/home/member.h"
#include "cli/home/server_file.h"
#include "cli/process/paths.h"

namespace hearth::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);

// Where the coordinator is, and whose cluster it is.
struct Place {
  PublicKey cluster;
  std::vector<std::string> coordinators;
};

Result<Place> find_place(const std::string& folder) {
  TRY(const auto member, read_member_file(folder));
  if (member && member->role != Role::kWorker) {
    return Error{ErrorCode::kRefused, "this machine has joined as " +
                                          std::string(role_name(member->role)) +
                                          ", which has no links to other nodes"};
  }
  if (member) return Place{member->cluster, member->coordinators};
  const auto running = read_server_file(folder);
  if (!running.ok()) {
    return Error{ErrorCode::kNotFound,
                 "no server runs with the data folder " + folder +
                     ", and it belongs to no cluster; name another with --data-dir"};
  }
  TRY(const SecretKey cluster, read_key_file(folder + "/cluster.key"));
  return Place{cluster.public_key(), {running->control}};
}

}  // namespace

Result<OwnPlace> own_place(const std::string& given) {
  const std::string folder = data_folder(given);
  TRY(const Place place, find_place(folder));
  TRY(const SecretKey key, read_key_file(folder + "/node.key"));
  OwnPlace own;
  TRY(own.roster, RosterFile::open(folder, place.cluster));
  const auto entry = own.roster->book()->find(key.public_key());
  if (!entry) return Member::removed();
  own.name = entry->name;
  TRY(own.inquirer.identity, TlsIdentity::make(key));
  own.inquirer.addresses = place.coordinators;
  own.inquirer.roster = own.roster->book();
  own.inquirer.patience = kPatience;
  return own;
}

}  // namespace hearth::cli

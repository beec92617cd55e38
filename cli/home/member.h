// The membership of this machine, as its data folder records it. Either the folder belongs to a
// server, whose workers enter with its local.token; or the machine has joined another machine's
// cluster (hearth join), and the folder has these files:
//
//   member.json   cluster, own name and role, where coordinator and API are dialled
//   node.key      own key            api.key   of the API, of a client or an admin
//   roster        the newest one, with its evidence (cli/home/identity.h)
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/descriptor.h"
#include "base/result.h"
#include "cli/home/identity.h"
#include "node/control/enrolment.h"
#include "node/control/inquiry.h"
#include "proto/join_token.h"
#include "proto/link/tls.h"

namespace hearth::cli {

struct MemberFile {
  PublicKey cluster;
  std::string node;                       // our name
  std::vector<std::string> coordinators;  // "host:port" of control ports, at least one
  Role role = Role::kWorker;
  std::string api;  // "host:port", of a client or an admin; empty: not reachable from here
  std::string cluster_name = {};  // empty: not told
};

// "home (falcon-horizon-aspen)": the cluster's name, where it is known, and the words of its key.
std::string cluster_text(const MemberFile& member);

// member.json of a folder; nothing when this machine has joined no cluster with it.
Result<std::optional<MemberFile>> read_member_file(const std::string& folder);

// Where a client's or an admin's machine sends prompts; nothing on any other machine.
struct MemberApi {
  std::string address;  // "host:port"
  std::string key;
};
std::optional<MemberApi> read_member_api(const std::string& folder);
// The base URL of the API over this machine's own link to its coordinator, as
// client::open_member_link(); nothing on a machine that has joined no cluster as a worker.
std::optional<std::string> open_own_link(const std::string& folder);
// Enrols this machine: member.json and what belongs to it. `role` none: the role that the token
// grants. If the machine is already a member of the token's cluster, this only checks that it still
// is. kInvalidInput when the folder is a server's or of another cluster, and for whatever
// node::enrol() refuses.
Result<MemberFile> join_cluster(const std::string& folder, const JoinToken& token,
                                const std::string& name, std::optional<Role> role);
// Looks for the coordinator of the cluster that this machine is in at another address: member.json
// names it from then on, and so does a worker that runs. kNotFound when it is in none.
Result<MemberFile> find_coordinator_at(const std::string& folder, const std::string& address);
// The same without a token, as node::wait_to_enrol().
Result<MemberFile> wait_to_join(const std::string& folder, const node::Waiting& waiting,
                                const std::string& name);
// Leaves the cluster, here and at the coordinator. `here_only`: only forgets it here.
Status leave_cluster(const std::string& folder, bool here_only);
// This machine as a peer that may query the coordinator and open data links: a worker that has
// joined, or the coordinator's machine. kNotFound when the folder belongs to no cluster and no
// server runs there, kRefused for a client or an admin, which has no data links.
Result<node::Inquirer> own_inquirer(const std::string& folder);

// A running worker's.
class Member {
 public:
  // Enters as the folder says. `name`: the name under which a worker of this machine's server
  // enrols (empty: the host name, or the first of it with -2, -3 and so on that no other worker
  // has). A machine that has joined already has a name; `name` may then only be that name.
  // kUnavailable when the folder belongs to no member and no server runs there. kRefused when the
  // folder's roster does not name the worker, or a worker of that name already runs with this
  // folder.
  static Result<std::unique_ptr<Member>> enter(const std::string& folder, const std::string& name);
  virtual ~Member() = default;
  // Why the roster no longer names this worker: it was removed, or `hearth leave` has run on its
  // folder.
  static Error removed(const std::string& folder);

  const std::string& name() const { return name_; }
  const TlsIdentity& identity() const { return identity_; }
  const SecretKey& key() const { return *key_; }
  const RosterFile& roster() const { return *roster_; }
  // Called before each dial: where the coordinator is. A server that started again has a new
  // local.token, and requires it.
  virtual Result<std::string> coordinator() = 0;
  // Whether coordinator() has given each known address: only then does a dial pause for long.
  virtual bool tried_all() const { return true; }
  // All of its known addresses.
  virtual std::vector<std::string> coordinators() = 0;
  // The coordinator answered at the address that was dialled last, and this is its roster.
  virtual void on_reached(const Roster& /*roster*/) {}
  // The default address on which data links listen; port 0. kUnavailable when no address of this
  // machine leads to the coordinator.
  virtual Result<std::string> listen_address() const = 0;
  // Whether peers on other machines know our key.
  virtual bool beyond_loopback() const = 0;

 protected:
  Member() = default;
  std::string name_;
  Descriptor lock_;  // while this worker runs
  TlsIdentity identity_;
  std::optional<SecretKey> key_;  // of the identity
  std::unique_ptr<RosterFile> roster_;
};

}  // namespace hearth::cli

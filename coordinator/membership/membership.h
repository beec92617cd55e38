// Membership: the members of the cluster, on the machine with the cluster key. It answers nodes
// that want to join (control/service.h), keeps members in the store and signs every roster.
// MembershipOptions::keep stores each new roster before it takes effect.
//
// Threads: everything on the main thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/result.h"
#include "coordinator/coordinator.h"
#include "coordinator/store/store.h"
#include "proto/control.pb.h"
#include "proto/roster.h"

namespace hearth::coordinator {

struct DialOutcome {
  std::string error;  // empty: connected
  double milliseconds = 0.0;
};

struct MembershipOptions {
  PublicKey node;  // our node key, as in TLS
  std::shared_ptr<RosterBook> roster;
  std::uint64_t evidence = 0;    // highest number of a roster that contradicts ours; set_back.h
  std::shared_ptr<Store> store;  // of join tokens and members
  // Recognises the join token for workers of this machine's user. Joining does not use it up. A
  // node that joins with it stays in the roster until the next restart() and is never stored.
  std::function<bool(std::string_view id, std::string_view secret)> is_local;
  // Stores the bytes of a new roster; a roster that cannot be stored is not applied.
  std::function<Status(ByteSpan roster)> keep;
  // Whether that key belongs to a worker of this machine's user, in the roster or not yet. Any
  // thread.
  std::function<bool(const PublicKey& key)> is_local_key;
  std::string cluster_name;     // as check_node_name(); may be empty
  bool answers_knocks = false;  // whether machines may ask for approval
  // The API's address for nodes of the roster, "host:port"; empty when they cannot reach it.
  std::function<std::string()> api_address;
  // The data address of a connected node, "host:port"; empty: it has no data address.
  std::function<std::string(std::string_view node)> locate;
  // The outcome of dialling there; nothing until it is known.
  std::function<std::optional<DialOutcome>(const std::string& address)> dial_back;
  // Called after a new roster: links must be checked again.
  std::function<void()> changed;
};

class Membership final {
 public:
  Membership(SecretKey cluster, MembershipOptions options, const Clock& clock);

  // ControlOptions::door: it lets in former members, which get the reason of their removal, and
  // this machine's own workers. While a join token is valid (also by open_door()), it lets in every
  // node. All others get no connection.
  std::function<Status(const PublicKey& key)> door() const;

  // CoordinatorOptions::is_newcomer: whether a node joined without being vouched for. False for a
  // key that is not in the store; true when the store cannot be read.
  std::function<bool(const PublicKey& key)> is_newcomer() const;

  // The calls of nodes outside the roster. An error is for the log; the peer gets told_refusal() of
  // it.
  control::v1::Proof prove();
  Result<control::v1::Enrolled> enrol(const PublicKey& key, const control::v1::Enrolment& request);
  // A node without a join token, which dials from that host, asks for approval. The answer has no
  // roster until it is a member.
  Result<control::v1::Enrolled> knock(const PublicKey& key, const std::string& from,
                                      const control::v1::Knocking& request);
  Status leave(const PublicKey& key);  // removes the node with this key at its own request
  Result<control::v1::Located> locate(const PublicKey& key, const std::string& node);
  // Dials only the address that the worker with that key has registered.
  Result<control::v1::Reached> reach(const PublicKey& key);

  // Makes a new roster, with a higher number than before, of the entry `own` and the nodes of the
  // store. kRefused when the store is an older copy (set_back.h).
  Status restart(const RosterEntry& own);
  // Makes a new roster in which the coordinator has these addresses, unless it has them already.
  Status set_addresses(const std::vector<std::string>& addresses);
  // The owner of a node's machine, if it was given at admission.
  std::optional<NodeOwner> owner_of(const PublicKey& key) const;
  // Updates the roster from the store: removes nodes that any process has revoked, and adds nodes
  // that any process has admitted.
  Status follow_store();

 private:
  struct Wish;
  static Result<Wish> read_wish(const PublicKey& key, const control::v1::Enrolment& request);
  Result<Role> granted_role(const control::v1::Enrolment& request) const;
  Result<std::optional<RosterEntry>> find_known(const PublicKey& key) const;
  Result<RosterEntry> find_server(const PublicKey& key) const;
  Status check_room(const RosterEntry& entry) const;
  Result<std::string> admit(RosterEntry& entry, const Wish& wish,
                            const control::v1::Enrolment& request);
  control::v1::Enrolled answer_to(const RosterEntry& entry, const std::string& api_key) const;
  Status note_waiting(const WaitingNode& node);
  void note_owner(const NodeRecord& node);
  Result<std::string> key_again(const RosterEntry& entry);
  Status add(const RosterEntry& entry);
  Status publish(std::vector<RosterEntry> entries);

  const SecretKey cluster_;
  const MembershipOptions options_;
  const Clock& clock_;
  std::map<PublicKey, std::string> owners_;  // owners of the store's nodes
  std::set<PublicKey> left_out_;             // no free name or no room; reported once
};

}  // namespace hearth::coordinator

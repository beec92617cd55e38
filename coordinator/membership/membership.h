// Membership: who belongs to the cluster, on the machine that holds the cluster key. It answers
// strangers (control/service.h), keeps members in the store, signs every roster, and hands each new
// one to its owner before anything else happens by it.
//
// Threads: everything on the owner's thread.
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
  PublicKey node;  // ours, which TLS shows
  std::shared_ptr<RosterBook> roster;
  std::uint64_t evidence = 0;    // greatest number of a roster that contradicts ours; set_back.h
  std::shared_ptr<Store> store;  // of join tokens, and of the nodes that came with one
  // A token for workers of this machine's user. Joining does not use it up, and a node that joins
  // with it is in the roster until the next restart() and never in the store.
  std::function<bool(std::string_view id, std::string_view secret)> is_local;
  // Makes the bytes of a new roster last; what cannot be kept is not applied.
  std::function<Status(ByteSpan roster)> keep;
  // Whether a worker of this machine's user has that key, in the roster or not yet. Any thread.
  std::function<bool(const PublicKey& key)> is_local_key;
  std::string cluster_name;     // as check_node_name; empty: it has none
  bool answers_knocks = false;  // others were told of the cluster
  // Where nodes of the roster reach the API, "host:port"; empty when they cannot.
  std::function<std::string()> api_address;
  // The data address of a connected node, "host:port"; empty: it has no data address.
  std::function<std::string(std::string_view node)> locate;
  // What comes of dialling there; nothing until it is known.
  std::function<std::optional<DialOutcome>(const std::string& address)> dial_back;
  // A new roster is in the book: links are to be looked at again.
  std::function<void()> changed;
};

class Membership final {
 public:
  Membership(SecretKey cluster, MembershipOptions options, const Clock& clock);

  // ControlOptions::door: open to each former member, which is told so; to this
  // machine's own workers; and to everybody while a token is good, or somebody has opened it
  // (open_door). Else a stranger hears nothing at all.
  std::function<Status(const PublicKey& key)> door() const;

  // CoordinatorOptions::is_newcomer: whether a node came in without being vouched for. Where the
  // store cannot say, it did.
  std::function<bool(const PublicKey& key)> is_newcomer() const;

  // The calls of strangers. An error is for the log: the peer hears told_refusal() of it.
  control::v1::Proof prove();
  Result<control::v1::Enrolled> enrol(const PublicKey& key, const control::v1::Enrolment& request);
  // Of one without a token that dials from that host. An answer without a roster to a node that is
  // not in it.
  Result<control::v1::Enrolled> knock(const PublicKey& key, const std::string& from,
                                      const control::v1::Knocking& request);
  Status leave(const PublicKey& key);  // the node with this key wants out
  Result<control::v1::Located> locate(const PublicKey& key, const std::string& node);
  // Dials nothing but what the worker of that key has registered.
  Result<control::v1::Reached> reach(const PublicKey& key);

  // A roster of `own` entry and the nodes of the store, newer than the one before. kRefused when
  // the store is an older copy than the roster (set_back.h).
  Status restart(const RosterEntry& own);
  // Whose machine a node is, where somebody has said so as it was let in.
  std::optional<NodeOwner> owner_of(const PublicKey& key) const;
  // Takes those out of the roster whom somebody has revoked in the store meanwhile, and those in
  // whom somebody has let in, in whatever process. The keys of the former let them in no more.
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
  std::map<PublicKey, std::string> owners_;  // of nodes in the store that have one
  std::set<PublicKey> left_out_;             // for want of a name or of room; said once
};

}  // namespace hearth::coordinator

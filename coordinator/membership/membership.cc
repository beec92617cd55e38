#include "coordinator/membership/membership.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/fingerprint.h"
#include "base/limits.h"
#include "base/peer_host.h"
#include "coordinator/membership/credentials.h"
#include "coordinator/membership/set_back.h"
#include "proto/address.h"
#include "proto/frame.h"
#include "proto/join_token.h"
#include "proto/link/admission.h"

namespace hearth::coordinator {
namespace {

bool asks_the_api(Role role) { return role == Role::kClient || role == Role::kAdmin; }

Error other_role(const std::string& token, Role granted, Role wanted) {
  return Error::of(ErrorCode::kRefused, kTokenOfOtherRole, ": join token ", token,
                   " grants the role ", role_name(granted), ", not ", role_name(wanted));
}

KeySecret key_of(const Store& store, const RosterEntry& entry, std::int64_t now) {
  NewKey wish;
  wish.name = std::string(role_name(entry.role)) + " " + entry.name;
  wish.admin = entry.role == Role::kAdmin;
  return new_key(store, wish, now, entry.key);
}

}  // namespace

// What a request asks for, with everything checked but its token, so that no bad one takes a use.
struct Membership::Wish {
  RosterEntry entry;
  std::optional<Role> role;  // none: as the token grants
};

Membership::Membership(SecretKey cluster, MembershipOptions options, const Clock& clock)
    : cluster_(std::move(cluster)), options_(std::move(options)), clock_(clock) {}

std::function<bool(const PublicKey& key)> Membership::is_newcomer() const {
  return [store = options_.store](const PublicKey& key) {
    const auto node = store->find_node(key);
    if (!node) {
      spdlog::error("cannot read whether {} is vouched for: {}", key.hex(), node.error().message);
    }
    return !node || (*node && (*node)->newcomer);
  };
}

std::function<Status(const PublicKey& key)> Membership::door() const {
  return [store = options_.store, is_local_key = options_.is_local_key,
          &clock = clock_](const PublicKey& key) -> Status {
    TRY(const auto node, store->find_node(key));
    if (node || (is_local_key && is_local_key(key))) return ok_status();
    TRY(const bool open, store->any_token(clock.unix_seconds()));
    if (open) return ok_status();
    return Error::of(ErrorCode::kRefused, "the key ", key.hex(), " (", three_words(key),
                     ") is not in the roster, and no join token is valid now; to let machines ask "
                     "without one, run hearth approve");
  };
}

control::v1::Proof Membership::prove() {
  control::v1::Proof proof;
  const ByteSpan key = cluster_.public_key().bytes();
  const Signature signature = prove_coordinator(cluster_, options_.node);
  proof.set_cluster_key(key.data(), key.size());
  proof.set_signature(signature.data(), signature.size());
  return proof;
}

Result<Membership::Wish> Membership::read_wish(const PublicKey& key,
                                               const control::v1::Enrolment& request) {
  Wish wish;
  wish.entry.key = key;
  wish.entry.name = request.node();
  TRY_VOID(check_node_name(wish.entry.name));
  if (!request.role().empty()) {
    TRY(wish.role, parse_role(request.role()));
  }
  REQUIRE(request.addresses_size() <= static_cast<int>(limits::kRosterAddresses), "addresses has ",
          request.addresses_size(), " entries; the limit is ", limits::kRosterAddresses);
  for (const std::string& address : request.addresses()) {
    TRY(const Address parsed, parse_address(address));
    wish.entry.addresses.push_back(parsed.text());
  }
  return wish;
}

// Who is in the roster; or in the store alone, when the process ended, or the disk was full, after
// the one was written and before the other.
Result<std::optional<RosterEntry>> Membership::find_known(const PublicKey& key) const {
  TRY(const auto node, options_.store->find_node(key));
  if (node && node->revoked) {
    return Error::of(ErrorCode::kRefused, kNodeRemoved, ": the node was removed as ", node->name,
                     ", and comes back only with a new key (hearth leave --here-only)");
  }
  if (auto entry = options_.roster->find(key)) return entry;
  if (!node) return std::optional<RosterEntry>();
  return std::optional(RosterEntry{key, node->name, node->role, {}});
}

Status Membership::check_room(const RosterEntry& entry) const {
  const auto now = options_.roster->roster();
  REQUIRE(now != nullptr, "the coordinator has no roster yet");
  if (now->find(entry.name) != nullptr) {
    return Error::of(ErrorCode::kRefused, kNameTaken, ": another node is named ", entry.name,
                     " already");
  }
  REQUIRE(now->entries.size() < limits::kRosterEntries, "the roster holds ", limits::kRosterEntries,
          " nodes, which is its limit; remove one first: hearth nodes rm NAME");
  return ok_status();
}

// A caller with a valid join token may get the reason of any other fault.
Result<Role> Membership::granted_role(const control::v1::Enrolment& request) const {
  if (options_.is_local(request.token_id(), request.secret())) return Role::kWorker;
  return check_token(*options_.store, request.token_id(), request.secret(), clock_.unix_seconds());
}

// Into the store with the use of its token, or nowhere. The API key's text, where it gets one.
Result<std::string> Membership::admit(RosterEntry& entry, const Wish& wish,
                                      const control::v1::Enrolment& request) {
  TRY(const Role granted, granted_role(request));
  entry.role = wish.role.value_or(granted);
  if (entry.role != granted) return other_role(request.token_id(), granted, entry.role);
  TRY_VOID(check_room(entry));
  if (options_.is_local(request.token_id(), request.secret())) return std::string();
  const std::int64_t now = clock_.unix_seconds();
  TRY(const auto token, options_.store->find_token(request.token_id()));
  Admission admission{{entry.key, entry.name, entry.role, now, false, token ? token->owner : "",
                       token && token->newcomer},
                      request.token_id(),
                      {}};
  std::string text;
  if (asks_the_api(entry.role)) {
    KeySecret made = key_of(*options_.store, entry, now);
    admission.key = std::move(made.key);
    text = std::move(made.text);
  }
  TRY_VOID(options_.store->admit(admission));
  note_owner(admission.node);
  return text;
}

// The first one may have been lost with its answer; only this node has proved to hold its key.
Result<std::string> Membership::key_again(const RosterEntry& entry) {
  if (!asks_the_api(entry.role)) return std::string();
  KeySecret made = key_of(*options_.store, entry, clock_.unix_seconds());
  TRY_VOID(options_.store->replace_key(made.key));
  return std::move(made.text);
}

Result<control::v1::Enrolled> Membership::enrol(const PublicKey& key,
                                                const control::v1::Enrolment& request) {
  TRY(const Wish wish, read_wish(key, request));
  TRY(const auto known, find_known(key));
  RosterEntry entry = known.value_or(wish.entry);
  std::string api_key;
  // A member asks again after a lost answer, or to give up its role. Neither needs a join token
  // again or gains rights. A join token for another role is a different request.
  if (known) {
    REQUIRE(entry.name == wish.entry.name && wish.role.value_or(entry.role) == entry.role,
            role_name(entry.role), " ", entry.name, " asks to be enrolled as ",
            role_name(wish.role.value_or(entry.role)), " ", wish.entry.name);
    const auto granted = granted_role(request);
    if (granted.ok() && *granted != entry.role) {
      return other_role(request.token_id(), *granted, entry.role);
    }
    TRY(api_key, key_again(entry));
  } else {
    TRY(api_key, admit(entry, wish, request));
  }
  if (!options_.roster->find(key)) TRY_VOID(add(entry));
  return answer_to(entry, api_key);
}

control::v1::Enrolled Membership::answer_to(const RosterEntry& entry,
                                            const std::string& api_key) const {
  control::v1::Enrolled answer;
  const Bytes roster = options_.roster->bytes();
  answer.set_roster(roster.data(), roster.size());
  answer.set_api_key(api_key);
  answer.set_cluster(options_.cluster_name);
  if (asks_the_api(entry.role)) answer.set_api_address(options_.api_address());
  return answer;
}

Result<control::v1::Enrolled> Membership::knock(const PublicKey& key, const std::string& from,
                                                const control::v1::Knocking& request) {
  REQUIRE(options_.answers_knocks,
          "an unknown node asks for approval; no other machine may join this server");
  TRY_VOID(check_node_name(request.node()));
  TRY(const auto known, find_known(key));
  if (!known) {
    const std::int64_t now = clock_.unix_seconds();
    TRY_VOID(note_waiting({key, request.node(), from, now, now}));
    return control::v1::Enrolled();
  }
  REQUIRE(known->name == request.node(), role_name(known->role), " ", known->name,
          " asks for approval as ", request.node());
  if (!options_.roster->find(key)) TRY_VOID(add(*known));
  TRY(const std::string api_key, key_again(*known));
  return answer_to(*known, api_key);
}

// Few at a time and few of one address, each as long as it keeps asking. A node without room gets
// no error.
Status Membership::note_waiting(const WaitingNode& node) {
  TRY_VOID(options_.store->forget_waiting(node.seen - limits::kWaitingSeconds));
  TRY(const auto all, options_.store->waiting());
  std::uint32_t neighbours = 0;
  for (const WaitingNode& each : all) {
    if (each.key == node.key) {
      // Every row is a write to the disk, so a node's repeated requests must not each write one.
      const bool same = each.name == node.name && each.from == node.from;
      if (node.seen - each.seen < limits::kWaitingSeconds / 4 && same) return ok_status();
      if (!same && node.seen - each.seen < 1) return ok_status();
      return options_.store->put_waiting({node.key, node.name, node.from, each.since, node.seen});
    }
    neighbours += peer_of_host(each.from) == peer_of_host(node.from) ? 1 : 0;
  }
  if (all.size() >= limits::kWaitingNodes || neighbours >= limits::kWaitingNodesAddress) {
    spdlog::debug("no room for {} in the list of nodes that wait for approval", node.name);
    return ok_status();
  }
  spdlog::info("{} ({}) at {} asks to join; approve it with hearth approve {}", node.name,
               three_words(node.key), node.from, node.name);
  return options_.store->put_waiting(node);
}

Status Membership::add(const RosterEntry& entry) {
  TRY_VOID(check_room(entry));
  std::vector<RosterEntry> entries = options_.roster->roster()->entries;
  entries.push_back(entry);
  TRY_VOID(publish(std::move(entries)));
  spdlog::info("{} {} is in the roster, with the key {}", role_name(entry.role), entry.name,
               entry.key.hex());
  return ok_status();
}

Status Membership::leave(const PublicKey& key) {
  TRY(const bool known, options_.store->revoke_node(key));
  REQUIRE(known, "the key ", key.hex(), " asks to leave and is not a member's");
  return follow_store();
}

// Clients and admins have no data links, and learn of none.
Result<RosterEntry> Membership::find_server(const PublicKey& key) const {
  const auto entry = options_.roster->find(key);
  REQUIRE(entry.has_value(), "the key ", key.hex(), " is not in the roster, and asks for a node");
  REQUIRE(entry->role == Role::kWorker || entry->role == Role::kCoordinator, role_name(entry->role),
          " ", entry->name, " asks for a node's address");
  return *entry;
}

Result<control::v1::Located> Membership::locate(const PublicKey& key, const std::string& node) {
  TRY_VOID(find_server(key));
  TRY_VOID(check_node_name(node));
  control::v1::Located answer;
  answer.set_address(options_.locate(node));
  return answer;
}

Result<control::v1::Reached> Membership::reach(const PublicKey& key) {
  TRY(const RosterEntry entry, find_server(key));
  control::v1::Reached answer;
  answer.set_address(options_.locate(entry.name));
  if (answer.address().empty()) return answer;
  const auto outcome = options_.dial_back(answer.address());
  answer.set_known(outcome.has_value());
  if (!outcome) return answer;
  answer.set_error(outcome->error);
  answer.set_milliseconds(outcome->milliseconds);
  return answer;
}

Status Membership::restart(const RosterEntry& own) {
  const auto before = options_.roster->roster();
  TRY_VOID(check_not_set_back(*options_.store, before == nullptr ? 0 : before->number,
                              options_.evidence));
  std::vector<RosterEntry> entries = {own};
  TRY(const auto nodes, options_.store->nodes());
  for (const NodeRecord& node : nodes) {
    note_owner(node);
    if (node.revoked) continue;
    const auto known = options_.roster->find(node.key);
    entries.push_back(known ? *known : RosterEntry{node.key, node.name, node.role, {}});
  }
  return publish(std::move(entries));
}

Status Membership::set_addresses(const std::vector<std::string>& addresses) {
  const auto now = options_.roster->roster();
  const RosterEntry* const own = now == nullptr ? nullptr : now->find(options_.node);
  if (own == nullptr || own->addresses == addresses) return ok_status();
  std::vector<RosterEntry> entries = now->entries;
  for (RosterEntry& entry : entries) {
    if (entry.key == options_.node) entry.addresses = addresses;
  }
  return publish(std::move(entries));
}

Status Membership::follow_store() {
  const auto now = options_.roster->roster();
  if (now == nullptr) return ok_status();
  TRY(const auto nodes, options_.store->nodes());
  std::vector<RosterEntry> entries = now->entries;
  for (const NodeRecord& node : nodes) {
    note_owner(node);
    if (!node.revoked) continue;
    const auto removed =
        std::erase_if(entries, [&](const RosterEntry& entry) { return entry.key == node.key; });
    if (removed > 0) spdlog::info("{} {} is removed", role_name(node.role), node.name);
  }
  if (entries.size() != now->entries.size()) TRY_VOID(publish(std::move(entries)));
  for (const NodeRecord& node : nodes) {
    if (node.revoked || now->find(node.key) != nullptr || left_out_.contains(node.key)) continue;
    const Status added = add({node.key, node.name, node.role, {}});
    if (added.ok()) continue;
    const ErrorCode code = added.error().code;
    const bool no_room = code == ErrorCode::kInvalidInput || code == ErrorCode::kRefused;
    if (!no_room) return added;  // the disk: again later
    spdlog::error("{} {} was admitted but is not in the roster: {}", role_name(node.role),
                  node.name, added.error().message);
    left_out_.insert(node.key);
  }
  return ok_status();
}

void Membership::note_owner(const NodeRecord& node) {
  if (!node.owner.empty()) owners_[node.key] = node.owner;
}

std::optional<NodeOwner> Membership::owner_of(const PublicKey& key) const {
  const auto found = owners_.find(key);
  if (found == owners_.end()) return std::nullopt;
  return NodeOwner{found->second, owner_id(*options_.store, found->second)};
}

Status Membership::publish(std::vector<RosterEntry> entries) {
  const auto now = options_.roster->roster();
  TRY(const auto noted, options_.store->roster_number());
  Roster next;
  next.number = std::max(now == nullptr ? 0 : now->number, noted.value_or(0)) + 1;
  next.entries = std::move(entries);
  TRY_VOID(options_.store->note_roster(next.number));
  TRY(const Bytes bytes, sign_roster(std::move(next), cluster_));
  TRY_VOID(options_.keep(bytes));
  TRY(const RosterBook::Offer offer, options_.roster->offer(bytes));
  REQUIRE(offer == RosterBook::Offer::kNewer,
          "the roster changed while the next one was made; retry");
  options_.changed();
  return ok_status();
}

}  // namespace hearth::coordinator

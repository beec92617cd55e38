#include "coordinator/membership.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/limits.h"
#include "coordinator/credentials.h"
#include "proto/address.h"
#include "proto/frame.h"
#include "proto/join_token.h"

namespace hearth::coordinator {
namespace {

// Everything that could be wrong with a request but its token, so that no bad one uses a token up.
Result<RosterEntry> read_entry(const PublicKey& key, const control::v1::Enrolment& request) {
  RosterEntry entry;
  entry.key = key;
  entry.name = request.node();
  TRY_VOID(check_node_name(entry.name));
  TRY(entry.role, parse_role(request.role()));
  REQUIRE(request.addresses_size() <= static_cast<int>(limits::kRosterAddresses),
          "a node of " + std::to_string(request.addresses_size()) + " addresses; the limit is " +
              std::to_string(limits::kRosterAddresses));
  for (const std::string& address : request.addresses()) {
    TRY(const Address parsed, parse_address(address));
    entry.addresses.push_back(parsed.text());
  }
  return entry;
}

// The last step of an enrolment: what follows can fail only where the disk does.
Status spend_token(const MembershipOptions& options, const PublicKey& key,
                   const control::v1::Enrolment& request, const RosterEntry& entry,
                   std::int64_t now) {
  if (options.is_local(request.token_id(), request.secret())) {
    REQUIRE(entry.role == Role::kWorker, "the token of this machine grants the role worker, not " +
                                             std::string(role_name(entry.role)));
    return ok_status();
  }
  TRY(const auto known, options.store->find_node(key));
  REQUIRE(!known.has_value(), "the node was removed as " + known->name +
                                  "; it comes back only with a new key (hearth leave)");
  TRY(const Role granted, redeem_token(*options.store, request.token_id(), request.secret(), now));
  REQUIRE(granted == entry.role, "token " + request.token_id() + " grants the role " +
                                     std::string(role_name(granted)) + ", not " +
                                     std::string(role_name(entry.role)));
  return options.store->add_node({key, entry.name, entry.role, now, false});
}

}  // namespace

Membership::Membership(SecretKey cluster, MembershipOptions options, const Clock& clock)
    : cluster_(std::move(cluster)), options_(std::move(options)), clock_(clock) {}

control::v1::Proof Membership::prove() {
  control::v1::Proof proof;
  const ByteSpan key = cluster_.public_key().bytes();
  const Signature signature = prove_coordinator(cluster_, options_.node);
  proof.set_cluster_key(key.data(), key.size());
  proof.set_signature(signature.data(), signature.size());
  return proof;
}

Result<Bytes> Membership::enrol(const PublicKey& key, const control::v1::Enrolment& request) {
  TRY(const RosterEntry entry, read_entry(key, request));
  // Somebody who is in asks again after a lost answer, or to leave its role: neither needs a token
  // again, and neither gets more than it has.
  if (const auto known = options_.roster->find(key)) {
    REQUIRE(known->name == entry.name && known->role == entry.role,
            std::string(role_name(known->role)) + " " + known->name + " asks to be enrolled as " +
                std::string(role_name(entry.role)) + " " + entry.name);
    return options_.roster->bytes();
  }
  REQUIRE(!options_.roster->find(entry.name).has_value(),
          "another node is named " + entry.name + " already");
  const auto now = options_.roster->roster();
  REQUIRE(now != nullptr, "the coordinator has no roster yet");
  REQUIRE(
      now->entries.size() < limits::kRosterEntries,
      "the roster holds " + std::to_string(limits::kRosterEntries) + " nodes, which is its limit");
  TRY_VOID(spend_token(options_, key, request, entry, clock_.unix_seconds()));
  std::vector<RosterEntry> entries = now->entries;
  entries.push_back(entry);
  TRY_VOID(publish(std::move(entries)));
  spdlog::info("{} {} is in the roster, with the key {}", role_name(entry.role), entry.name,
               entry.key.hex());
  return options_.roster->bytes();
}

Status Membership::leave(const PublicKey& key) {
  TRY(const bool known, options_.store->revoke_node(key));
  REQUIRE(known, "the key " + key.hex() + " has not joined, and asks to leave");
  return follow_store();
}

Status Membership::restart(const RosterEntry& own) {
  std::vector<RosterEntry> entries = {own};
  TRY(const auto nodes, options_.store->nodes());
  for (const NodeRecord& node : nodes) {
    if (node.revoked) continue;
    const auto before = options_.roster->find(node.key);
    entries.push_back(before ? *before : RosterEntry{node.key, node.name, node.role, {}});
  }
  return publish(std::move(entries));
}

Status Membership::follow_store() {
  const auto now = options_.roster->roster();
  if (now == nullptr) return ok_status();
  TRY(const auto nodes, options_.store->nodes());
  std::vector<RosterEntry> entries = now->entries;
  for (const NodeRecord& node : nodes) {
    if (!node.revoked) continue;
    const auto removed =
        std::erase_if(entries, [&](const RosterEntry& entry) { return entry.key == node.key; });
    if (removed > 0) spdlog::info("{} {} is removed", role_name(node.role), node.name);
  }
  if (entries.size() == now->entries.size()) return ok_status();
  return publish(std::move(entries));
}

Status Membership::publish(std::vector<RosterEntry> entries) {
  const auto now = options_.roster->roster();
  Roster next;
  next.number = now == nullptr ? 1 : now->number + 1;
  next.entries = std::move(entries);
  TRY(const Bytes bytes, sign_roster(std::move(next), cluster_));
  TRY_VOID(options_.keep(bytes));
  TRY(const RosterBook::Offer offer, options_.roster->offer(bytes));
  REQUIRE(offer == RosterBook::Offer::kNewer, "the roster was changed by somebody else");
  options_.changed();
  return ok_status();
}

}  // namespace hearth::coordinator

#include "coordinator/membership/set_back.h"

#include <algorithm>

namespace hearth::coordinator {
namespace {

bool joined(const RosterEntry& entry) { return entry.role != Role::kCoordinator; }

bool in_all(const std::vector<const Roster*>& rosters, const PublicKey& key) {
  return std::ranges::all_of(rosters, [&](const Roster* roster) {
    const RosterEntry* entry = roster->find(key);
    return entry != nullptr && joined(*entry);
  });
}

}  // namespace

Status check_not_set_back(Store& store, std::uint64_t number, std::uint64_t evidence) {
  TRY(const auto noted, store.roster_number());
  if (!noted || (number <= *noted && (evidence == 0 || evidence < *noted))) return ok_status();
  return Error{
      ErrorCode::kRefused,
      message_of(
          "the cluster's store has recorded rosters up to number ", *noted, ", and ",
          (number > *noted ? "the roster of this folder" : "a roster that a member holds"),
          ", signed by this cluster, has number ", number > *noted ? number : evidence,
          ": the store is an older copy and would readmit nodes that were removed since. The "
          "server does not start. Restore the newest copy, or take the members from the newest "
          "roster: hearth nodes restore")};
}

Result<Restored> restore_members(Store& store, const std::vector<Roster>& rosters,
                                 const std::function<bool(const RosterEntry&)>& is_local,
                                 std::int64_t now) {
  Restored restored;
  for (const Roster& roster : rosters) restored.number = std::max(restored.number, roster.number);
  std::vector<const Roster*> newest;
  for (const Roster& roster : rosters) {
    if (roster.number == restored.number) newest.push_back(&roster);
  }
  if (newest.empty()) {
    return Error{ErrorCode::kNotFound,
                 "this folder has no roster to take the members from; copy the newest roster of a "
                 "member here first"};
  }
  TRY(const auto nodes, store.nodes());
  TRY(const auto noted, store.roster_number());
  std::vector<PublicKey> out;
  for (const NodeRecord& node : nodes) {
    if (node.revoked || in_all(newest, node.key)) continue;
    out.push_back(node.key);
    restored.removed.push_back(node.name);
  }
  std::vector<NodeRecord> in;
  for (const RosterEntry& entry : newest.front()->entries) {
    const bool known = std::ranges::count(nodes, entry.key, &NodeRecord::key) > 0;
    if (known || !in_all(newest, entry.key) || is_local(entry)) continue;
    constexpr bool kNewcomer = true;
    in.push_back({entry.key, entry.name, entry.role, now, false, "", kNewcomer});
    restored.added.push_back(entry.name);
  }
  // Above all of their numbers, so that none of them contradicts the store any more.
  restored.number = std::max(restored.number, noted.value_or(0)) + 1;
  TRY_VOID(store.restore(restored.number, out, in));
  return restored;
}

}  // namespace hearth::coordinator

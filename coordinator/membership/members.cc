#include "coordinator/membership/members.h"

#include "base/limits.h"
#include "coordinator/membership/credentials.h"

namespace hearth::coordinator {

Result<std::vector<WaitingNode>> nodes_that_ask(Store& store, std::int64_t now) {
  TRY(std::vector<WaitingNode> all, store.waiting());
  std::erase_if(
      all, [now](const WaitingNode& node) { return now - node.seen > limits::kWaitingSeconds; });
  return all;
}

Status approve(Store& store, const WaitingNode& node, const Approval& approval, std::int64_t now) {
  if (!approval.owner.empty()) TRY_VOID(check_owner_name(approval.owner));
  REQUIRE(!approval.newcomer || approval.role == Role::kWorker, "only a worker can be a newcomer");
  return store.admit(
      {{node.key, node.name, approval.role, now, false, approval.owner, approval.newcomer},
       "",
       {}});
}

Result<PublicKey> remove_member(Store& store, const std::string& name) {
  TRY(const std::vector<NodeRecord> nodes, store.nodes());
  for (const NodeRecord& node : nodes) {
    if (node.revoked || node.name != name) continue;
    TRY_VOID(store.revoke_node(node.key));
    return node.key;
  }
  return Error::of(ErrorCode::kNotFound, "no member is named ", name,
                   "; hearth nodes lists the members (local workers of this "
                   "machine belong to hearth serve)");
}

}  // namespace hearth::coordinator

// Actions on the members of a cluster, for the command line and the API. They change only the
// store; the running server follows within 2 s (Membership::follow_store).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/store.h"
#include "proto/roster.h"

namespace hearth::coordinator {

// The nodes that asked to join in the last limits::kWaitingSeconds.
Result<std::vector<WaitingNode>> nodes_that_ask(Store& store, std::int64_t now);

struct Approval {
  Role role = Role::kWorker;
  std::string owner = {};  // as check_owner_name, or empty
  bool newcomer = false;   // of a worker: it audits before it may serve
};
// Admits a node that asks. kInvalidInput: a field is out of range, or a member has this name.
Status approve(Store& store, const WaitingNode& node, const Approval& approval, std::int64_t now);

// The key of the member that was removed. kNotFound: no member of the store has this name.
Result<PublicKey> remove_member(Store& store, const std::string& name);

}  // namespace hearth::coordinator

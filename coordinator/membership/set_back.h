// A store that was set back: a copy of hearth.db that is put back would let nodes in again that
// were removed since it was made, and their tokens with them. Rosters are signed and numbered and
// the store notes every number before one is signed under it, so that a roster can say so.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/store.h"
#include "proto/roster.h"

namespace hearth::coordinator {

// `number`: of the newest roster of this machine, 0: none. `evidence`: the greatest number of one
// that contradicts it, 0: none. kRefused, with what to do, when the store is older than either.
Status check_not_set_back(Store& store, std::uint64_t number, std::uint64_t evidence);

struct Restored {
  std::vector<std::string> removed;  // names of nodes that had been, and had come back
  std::vector<std::string> added;    // that had joined since the copy
  std::vector<std::string> unknown;  // of those, of whom `said` has nothing
  std::uint64_t number = 0;          // that the store stands behind from now on
};

// Makes the store agree with the newest of these rosters of one cluster; where several have the
// greatest number, a node stays that all of them have. `is_local`: those of this machine's own
// server, which are in no store. `said`: whose machine a node is and whether it was vouched for,
// which no roster says; for good, so that it may be older or newer than they are. kNotFound without
// any roster.
Result<Restored> restore_members(Store& store, const std::vector<Roster>& rosters,
                                 const std::function<bool(const RosterEntry&)>& is_local,
                                 const std::vector<NodeRecord>& said, std::int64_t now);

}  // namespace hearth::coordinator

// Detects a store that was restored from an older copy. An older hearth.db would readmit nodes that
// were removed since, and their join tokens. Rosters are signed and numbered, and the store records
// each number before a roster is signed with it. So a newer roster proves that the store is older.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/store.h"
#include "proto/roster.h"

namespace hearth::coordinator {

// `number`: of this machine's newest roster; 0: no roster. `evidence`: the highest number of a
// contradicting roster; 0: no such roster. kRefused, with the next step, when the store's number is
// below `number` or not above `evidence`.
Status check_not_set_back(Store& store, std::uint64_t number, std::uint64_t evidence);

struct Restored {
  std::vector<std::string> removed;  // nodes removed since the copy, which it had readmitted
  std::vector<std::string> added;    // nodes that joined since the copy
  std::uint64_t number = 0;          // the store's roster number from now on
};

// Makes the store agree with the newest of these rosters of one cluster. When several have the
// highest number, only nodes in all of them stay. `is_local`: this machine's own workers, which are
// never stored. Rosters do not have owners or vouching: an added node has no owner and is a
// newcomer, unless the log knows its key. kNotFound without any roster.
Result<Restored> restore_members(Store& store, const std::vector<Roster>& rosters,
                                 const std::function<bool(const RosterEntry&)>& is_local,
                                 std::int64_t now);

}  // namespace hearth::coordinator

// joined.json in a coordinator's folder: whose machine each node is, and whether it was vouched for
// as it was let in. The store has that too, and no roster says it, so it is written beside the
// roster and before it, for a store that is set back (coordinator/membership/set_back.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/store.h"

namespace hearth::cli {

// Of all nodes of the store that are not revoked.
Status write_joined_file(const std::string& folder, coordinator::Store& store);

// Nothing when there is no file. kInvalidInput for one that nobody of this program has written.
Result<std::vector<coordinator::NodeRecord>> read_joined_file(const std::string& folder);

}  // namespace hearth::cli

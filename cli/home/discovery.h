// The clusters of this network, and our own for others to find, by Avahi's programs.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "cli/home/announcements.h"
#include "cli/process/children.h"

namespace hearth::cli {

// Asks the network, for a second or two. kUnsupported, with what to do instead, where Avahi's
// program is missing or its daemon does not run.
Result<std::vector<FoundCluster>> discover_clusters();

// The process that announces a cluster for as long as it runs; nothing where Avahi's program is not
// installed.
std::optional<ChildSpec> announcement(const FoundCluster& cluster);

}  // namespace hearth::cli

// The output of hearth status and hearth top.
#pragma once

#include <string>

#include "cli/terminal/screen.h"
#include "coordinator/client/swarm_view.h"

namespace hearth::cli {

// The nodes with the layers that they hold and, while the swarm is not ready, the reason and what
// to add.
Lines status_lines(const client::SwarmView& view);

// The working nodes. `time`: as it is shown.
Lines top_lines(const client::SwarmView& view, const std::string& api_base,
                const std::string& time);

}  // namespace hearth::cli

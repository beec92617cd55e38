// A swarm as text: what status and top print.
#pragma once

#include <string>

#include "cli/swarm_view.h"
#include "cli/terminal/screen.h"

namespace hearth::cli {

// The nodes with the layers that they hold, and where no prompt would be answered, why not and what
// to add.
Lines status_lines(const SwarmView& view);

// The nodes at work. `time`: as it is to be shown.
Lines top_lines(const SwarmView& view, const std::string& api_base, const std::string& time);

}  // namespace hearth::cli

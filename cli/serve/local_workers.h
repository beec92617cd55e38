// The workers that a server starts on its own machine.
#pragma once

#include <string>
#include <vector>

#include "cli/process/children.h"
#include "cli/serve/serve.h"

namespace hearth::cli {

// `model`: the file that they hold; `control`: the address that they dial.
std::vector<ChildSpec> local_workers(const ServeOptions& options, bool in_cluster,
                                     const std::string& model, const std::string& control);

}  // namespace hearth::cli

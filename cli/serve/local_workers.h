// The workers that a server starts on its own machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/process/children.h"
#include "cli/serve/serve.h"

namespace hearth::cli {

// The time for local workers to end before another model takes their memory; after it they are
// killed.
inline constexpr auto kLocalWorkersFarewell = std::chrono::seconds(5);

// Those that hold the current model have one set of names. Those of a model that is loaded beside
// it have "-m" and `beside`, the model's number from 1, at the end of theirs.
std::vector<std::string> local_worker_names(const ServeOptions& options, bool in_cluster,
                                            std::uint32_t beside = 0);

// `model`: the file that they hold; `control`: the address that they dial.
std::vector<ChildSpec> local_workers(const ServeOptions& options, bool in_cluster,
                                     const std::string& model, const std::string& control,
                                     std::uint32_t beside = 0);

}  // namespace hearth::cli

// A coordinator beside others with one store in PostgreSQL: it waits for the lease, and answers the
// API meanwhile (cli/serve/front.h).
#pragma once

#include <memory>

#include "base/result.h"
#include "cli/serve/serve.h"
#include "coordinator/store/lease_watch.h"

namespace hearth::cli {

// Takes part in the lease of the folder's store; null: it is SQLite. An API port 0 of the options
// becomes a free one, which the others are told. Opens the log file, before it starts a thread.
Result<std::unique_ptr<coordinator::LeaseWatch>> join_coordinators(ServeOptions& options);

// Returns true once this coordinator leads, and false after a signal to end.
Result<bool> wait_for_lease(ServeOptions& options, const coordinator::LeaseWatch& lease);

}  // namespace hearth::cli

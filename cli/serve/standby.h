// A coordinator beside others with one store in PostgreSQL: it waits for the lease, and answers the
// API meanwhile by handing each connection to the leader, byte for byte. Where the leader cannot be
// reached, the answer is 503 with its name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/serve/serve.h"
#include "coordinator/store/lease_watch.h"

namespace hearth::cli {

// Takes part in the lease of the folder's store; null: it is SQLite. An API port 0 of the options
// becomes a free one, which the others are told.
Result<std::unique_ptr<coordinator::LeaseWatch>> join_coordinators(ServeOptions& options);

// Returns true once this coordinator leads, and false after a signal to end.
Result<bool> wait_for_lease(const ServeOptions& options, const coordinator::LeaseWatch& lease);

// Where this machine dials the leader's API; nothing when it cannot: a leader on loopback is
// reached from its own machine alone, and it is handed only connections that came by loopback.
std::optional<std::string> way_to_leader(const coordinator::LeasePeer& leader,
                                         const coordinator::LeasePeer& self,
                                         const std::string& listens);
// The whole answer to a request that cannot be forwarded.
std::string standby_answer(const coordinator::LeasePeer& leader, const std::string& why);

}  // namespace hearth::cli

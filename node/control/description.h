// The model that a coordinator serves, for a worker that has not its file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "node/holding.h"
#include "proto/link/tls.h"
#include "proto/roster.h"

namespace hearth::node {

struct Description {
  Bytes manifest;            // signed; empty while the coordinator makes it:
  std::uint64_t hashed = 0;  // so many bytes of the file it has read
  std::uint64_t file_bytes = 0;
  Holder coordinator;  // who holds all of the model
};

// Asks at the addresses, one after another, `patience` each; blocks. kUnavailable when no
// coordinator of the roster answers, kRefused when one does not know us.
Result<Description> describe(const std::vector<std::string>& addresses, const TlsIdentity& identity,
                             const std::shared_ptr<const RosterBook>& roster, Duration patience);

}  // namespace hearth::node

// What a member of the roster, and the coordinator's own machine, may ask the coordinator.
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

struct Inquirer {
  std::vector<std::string> addresses;  // of the coordinator's control port, tried in turn
  TlsIdentity identity;
  std::shared_ptr<const RosterBook> roster;
  Duration patience{};  // with each
};

// All of these block. kUnavailable when no coordinator of the roster answers, kRefused when one
// answers that it does not know us, or that we may not ask.

// The address of a node's data links; "coordinator" is one. kNotFound when no such node is
// connected.
Result<std::string> locate(const Inquirer& inquirer, const std::string& node);

// What the coordinator finds that dials our own worker's data links.
struct Reached {
  std::string address;
  std::string error;  // empty: it is connected
  double milliseconds = 0.0;
};
// For a few seconds. kNotFound when no worker is connected under our key.
Result<Reached> reach(const Inquirer& inquirer);

// The model that a coordinator serves, for a worker that has not its file.
struct Description {
  Bytes manifest;            // signed; empty while the coordinator makes it:
  std::uint64_t hashed = 0;  // so many bytes of the file it has read
  std::uint64_t file_bytes = 0;
  Holder coordinator;  // who holds all of the model
};
Result<Description> describe(const Inquirer& inquirer);

// Asks to be taken out of the roster.
Status leave(const Inquirer& inquirer);

}  // namespace hearth::node

// The questions that a member of the roster, and the coordinator's own machine, may ask the
// coordinator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "node/holding.h"
#include "proto/link/route.h"
#include "proto/link/tls.h"
#include "proto/roster.h"

namespace hearth::node {

struct Inquirer {
  std::vector<std::string> addresses;  // of the coordinator's control port, tried in turn
  TlsIdentity identity;
  std::shared_ptr<const RosterBook> roster;
  Duration patience{};  // with each
};

// All of these block. kUnavailable when no coordinator of the roster answers, kRefused when it does
// not know us or we may not ask.

// The address of a node's data links; "coordinator" is one. kNotFound when no such node is
// connected.
Result<std::string> locate(const Inquirer& inquirer, const std::string& node);
// A route to it (proto/link/route.h), good for one link; an older coordinator gives the address.
Result<Route> find_route(const Inquirer& inquirer, const std::string& node);

// The result of the coordinator's attempt to dial our own worker's data links.
struct Reached {
  std::string address;
  std::string error;  // empty: it is connected
  double milliseconds = 0.0;
  std::string seen_host;  // where a router translates our address; nothing was dialled then
};
// Waits a few seconds. kNotFound when no worker is connected with our key.
Result<Reached> reach(const Inquirer& inquirer);

// The model that a coordinator serves, for a worker without its file.
struct Description {
  Bytes manifest;            // signed; empty while the coordinator makes it
  std::uint64_t hashed = 0;  // bytes of the file that it has hashed so far
  std::uint64_t file_bytes = 0;
  Holder coordinator;  // holds the whole model
};
Result<Description> describe(const Inquirer& inquirer);

// Asks to be taken out of the roster.
Status leave(const Inquirer& inquirer);

}  // namespace hearth::node

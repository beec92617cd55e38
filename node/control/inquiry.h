// What a worker of the roster, and the coordinator's own machine, may ask the coordinator.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "proto/link/tls.h"
#include "proto/roster.h"

namespace hearth::node {

struct Inquirer {
  std::vector<std::string> addresses;  // of the coordinator's control port, tried in turn
  TlsIdentity identity;
  std::shared_ptr<const RosterBook> roster;
  Duration patience{};  // with each
};

// The address of a node's data links; "coordinator" is one. Blocks. kUnavailable when no
// coordinator answers, kNotFound when no such node is connected, kRefused when the one that asks
// may not.
Result<std::string> locate(const Inquirer& inquirer, const std::string& node);

// What the coordinator finds that dials our own worker's data links.
struct Reached {
  std::string address;
  std::string error;  // empty: it is connected
  double milliseconds = 0.0;
};
// Blocks for a few seconds. kNotFound when no worker is connected under our key; else as above.
Result<Reached> reach(const Inquirer& inquirer);

}  // namespace hearth::node

// This machine's place in a cluster, as who may ask the coordinator and open data links: a worker
// that has joined, or the coordinator's own machine.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/home/identity.h"
#include "node/control/inquiry.h"

namespace hearth::cli {

struct OwnPlace {
  std::unique_ptr<RosterFile> roster;
  std::string name;  // in the roster
  node::Inquirer inquirer;
};

// kNotFound when the folder belongs to no cluster and no server runs there, kRefused for a client
// or an admin, which has no data links.
Result<OwnPlace> own_place(const std::string& folder);

}  // namespace hearth::cli

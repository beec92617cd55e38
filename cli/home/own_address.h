// The name of this machine, and the address at which others reach it.
#pragma once

#include <string>

#include "base/result.h"
#include "proto/address.h"

namespace hearth::cli {

// The numeric host from which a packet to `peer` would leave. kUnavailable without a way there.
Result<std::string> own_host_towards(const Address& peer);
// The host name; "worker" where there is no name.
std::string host_name();
// The address of the default route, else of the first interface that is up and has an IPv4 address
// other than loopback; else kNotFound.
Result<std::string> own_host();

}  // namespace hearth::cli

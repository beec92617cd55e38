// What this machine is called, and which address of it others reach it at.
#pragma once

#include <string>

#include "base/result.h"
#include "proto/address.h"

namespace hearth::cli {

// The numeric host from which a packet to `peer` would leave. kUnavailable without a way there.
Result<std::string> own_host_towards(const Address& peer);

// Whether this machine could listen at that numeric host.
bool is_own_host(const std::string& host);

// As the machine calls itself; "worker" for one without a name.
std::string host_name();

// Of the way to everywhere, else of the first interface that is up and has an IPv4 address beyond
// loopback. kNotFound when there is none.
Result<std::string> own_host();

}  // namespace hearth::cli

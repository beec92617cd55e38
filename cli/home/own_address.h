// The name of this machine, and the address at which others reach it.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "proto/address.h"

namespace hearth::cli {

// The numeric host from which a packet to `peer` would leave. kUnavailable without a route to it.
Result<std::string> own_host_towards(const Address& peer);
// The host name; "worker" where there is no name.
std::string host_name();
// The address of the default route. kUnavailable without one.
Result<std::string> default_host();
// The same, else of the first interface that is up and has an IPv4 address other than loopback;
// else kNotFound.
Result<std::string> own_host();

// Notices that a machine has left an address for another one: a lease that ended, another network.
// A plain state machine.
class AddressWatch {
 public:
  // After an interruption, a network usually brings the same address back sooner than this.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  // Called about once a second. `other`: the address that would replace the watched one; empty
  // while the machine has the watched one, or has no address. True once, when `other` has been the
  // same for kPatience.
  bool has_moved(TimePoint now, const std::string& other);

 private:
  std::string other_;
  // Nothing: there is no other address, or the change was already reported.
  std::optional<TimePoint> since_;
};

}  // namespace hearth::cli

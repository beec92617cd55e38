// The largest packet that the way to a host takes, found by sending datagrams that no router may
// cut. Whoever listens at no such port answers that nobody does, and so that it arrived.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "proto/address.h"

namespace hearth::cli {

struct PathMtu {
  std::string interface;      // that packets leave by
  std::uint32_t mtu = 0;      // of the interface
  std::uint32_t carried = 0;  // 0: nothing answers, not even to the smallest
  bool told = false;          // by a router on the way, and so the kernel knows
};

// Blocks for some seconds at most. `address`: a UDP port there at which nobody listens.
// kUnavailable when there is no way.
Result<PathMtu> path_mtu(const Address& address);

}  // namespace hearth::cli

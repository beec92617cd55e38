// An outside port of the home's router: the router forwards the connections that reach it to a port
// of this machine. Asked for by NAT-PMP (RFC 6886, with libnatpmp), then by UPnP IGD (with
// miniupnpc).
//
// Call ask_router() in a process of its own (port_mapping.h): a device of the local network
// answers, and the libraries set no bound to what it sends.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace hearth::cli {

struct OutsidePort {
  std::string protocol;  // "NAT-PMP" or "UPnP"
  std::uint16_t port = 0;
  std::uint32_t seconds = 0;  // until the router forgets it, unless it is asked again
};

// TCP. `gateway`: the router's IPv4 address for NAT-PMP; empty: that of the default route, and UPnP
// is tried too. Takes some seconds. kUnavailable: no router offers it.
Result<OutsidePort> ask_router(std::uint16_t port, const std::string& gateway);

struct MapPortOptions {
  std::uint16_t port = 0;
  std::string gateway;
  bool json = false;
};
Result<int> run_map_port(const MapPortOptions& options);

}  // namespace hearth::cli

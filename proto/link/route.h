// Route: how a node opens a link to another one. As text it takes the place of an address:
//
//   host:port                    direct: connect there
//   relayed TICKET host:port     connect there and show the ticket: a relay forwards all bytes to
//                                the node that shows the other ticket of the pair
//   punched TICKET host:port CONTROL    the node at the other end gets such a route, too. Both show
//                                the coordinator which outside port their routers give, at its data
//                                port and its control port (proto/link/rendezvous.h), and connect
//                                to each other at once
//   reverse TICKET               wait for the other node, which connects here and shows the ticket
//
// A ticket is a random number that the coordinator gives to both ends for one link. It identifies a
// connection before the handshake and grants nothing else: both ends still prove their node keys.
#pragma once

#include <string>
#include <string_view>

#include "base/crypto.h"
#include "base/result.h"
#include "proto/address.h"

namespace hearth {

using Ticket = Hash256;

enum class RouteKind : std::uint8_t { kDirect, kReverse, kPunched, kRelayed };
const char* route_name(RouteKind kind);  // "direct", "reverse", "punched", "relayed"

struct Route {
  RouteKind kind = RouteKind::kDirect;
  Address address = {};            // empty for kReverse
  Ticket ticket = {};              // zero for kDirect
  std::uint16_t control_port = 0;  // of the coordinator, whose data port `address` has; of kPunched
  std::string text() const;
};

// The text of a relayed route to an address that a peer stated; the receiver checks it.
std::string relayed_route(const Ticket& ticket, const std::string& address);
// The text of a punched one, for one of its ends.
std::string punched_route(const Ticket& ticket, const std::string& address,
                          std::uint16_t control_port);
// kInvalidInput for any other text.
Result<Route> parse_route(std::string_view text);
// Whether a text is no route with a ticket.
bool is_direct_route(std::string_view text);
// For logs: the text without the ticket.
std::string describe_route(std::string_view text);

}  // namespace hearth

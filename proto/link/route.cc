#include "proto/link/route.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/hex.h"

namespace hearth {
namespace {

constexpr std::array kTicketKinds = {RouteKind::kReverse, RouteKind::kRelayed};

Result<Ticket> parse_ticket(std::string_view text) {
  const auto bytes = from_hex(text);
  Ticket ticket;
  REQUIRE(bytes && bytes->size() == ticket.bytes.size(), "a ticket must have ",
          2 * ticket.bytes.size(), " lower-case hexadecimal digits");
  std::ranges::copy(*bytes, ticket.bytes.begin());
  return ticket;
}

}  // namespace

const char* route_name(RouteKind kind) {
  switch (kind) {
    case RouteKind::kDirect: return "direct";
    case RouteKind::kReverse: return "reverse";
    case RouteKind::kRelayed: return "relayed";
  }
  return "unknown";
}

std::string Route::text() const {
  switch (kind) {
    case RouteKind::kDirect: break;
    case RouteKind::kReverse: return std::string(route_name(kind)) + " " + ticket.hex();
    case RouteKind::kRelayed: return relayed_route(ticket, address.text());
  }
  return address.text();
}

std::string relayed_route(const Ticket& ticket, const std::string& address) {
  return std::string(route_name(RouteKind::kRelayed)) + " " + ticket.hex() + " " + address;
}

Result<Route> parse_route(std::string_view text) {
  Route route;
  for (const RouteKind kind : kTicketKinds) {
    const std::string name = std::string(route_name(kind)) + " ";
    if (!text.starts_with(name)) continue;
    route.kind = kind;
    std::string_view rest = text.substr(name.size());
    const std::size_t digits = std::min(rest.size(), 2 * route.ticket.bytes.size());
    TRY(route.ticket, parse_ticket(rest.substr(0, digits)));
    rest.remove_prefix(digits);
    if (kind == RouteKind::kReverse) {
      REQUIRE(rest.empty(), "a reverse route must end with its ticket");
      return route;
    }
    REQUIRE(rest.starts_with(" "), "a relayed route must name an address after its ticket");
    TRY(route.address, parse_address(rest.substr(1)));
    return route;
  }
  TRY(route.address, parse_address(text));
  return route;
}

bool is_direct_route(std::string_view text) {
  return std::ranges::none_of(kTicketKinds,
                              [&](RouteKind kind) { return text.starts_with(route_name(kind)); });
}

std::string describe_route(std::string_view text) {
  const Result<Route> route = parse_route(text);
  if (!route.ok() || route->kind == RouteKind::kDirect) return std::string(text);
  if (route->kind == RouteKind::kReverse) return "a connection that the peer opens";
  return "the relay at " + route->address.text();
}

}  // namespace hearth

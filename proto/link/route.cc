#include "proto/link/route.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/hex.h"
#include "base/number.h"

namespace hearth {
namespace {

constexpr std::array kTicketKinds = {RouteKind::kReverse, RouteKind::kPunched, RouteKind::kRelayed};

Result<Ticket> parse_ticket(std::string_view text) {
  const auto bytes = from_hex(text);
  Ticket ticket;
  REQUIRE(bytes && bytes->size() == ticket.bytes.size(), "a ticket must have ",
          2 * ticket.bytes.size(), " lower-case hexadecimal digits");
  std::ranges::copy(*bytes, ticket.bytes.begin());
  return ticket;
}

// "host:port CONTROL"
Status parse_ports(std::string_view text, Route& route) {
  const std::size_t space = text.find(' ');
  REQUIRE(space != std::string_view::npos,
          "a punched route must name the control port after its address");
  TRY(route.address, parse_address(text.substr(0, space)));
  const std::string_view digits = text.substr(space + 1);
  const auto port = parse_number<std::uint16_t>(digits);
  REQUIRE(port && digits.front() != '0',
          "the control port of a punched route must be a number from 1 to 65535");
  route.control_port = *port;
  return ok_status();
}

}  // namespace

const char* route_name(RouteKind kind) {
  switch (kind) {
    case RouteKind::kDirect: return "direct";
    case RouteKind::kReverse: return "reverse";
    case RouteKind::kPunched: return "punched";
    case RouteKind::kRelayed: return "relayed";
  }
  return "unknown";
}

std::string Route::text() const {
  switch (kind) {
    case RouteKind::kDirect: break;
    case RouteKind::kReverse: return std::string(route_name(kind)) + " " + ticket.hex();
    case RouteKind::kPunched: return punched_route(ticket, address.text(), control_port);
    case RouteKind::kRelayed: return relayed_route(ticket, address.text());
  }
  return address.text();
}

std::string relayed_route(const Ticket& ticket, const std::string& address) {
  return std::string(route_name(RouteKind::kRelayed)) + " " + ticket.hex() + " " + address;
}

std::string punched_route(const Ticket& ticket, const std::string& address,
                          std::uint16_t control_port) {
  return std::string(route_name(RouteKind::kPunched)) + " " + ticket.hex() + " " + address + " " +
         std::to_string(control_port);
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
    REQUIRE(rest.starts_with(" "), "a ", route_name(kind),
            " route must name an address after its ticket");
    rest.remove_prefix(1);
    if (kind == RouteKind::kPunched) {
      TRY_VOID(parse_ports(rest, route));
    } else {
      TRY(route.address, parse_address(rest));
    }
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
  if (route->kind == RouteKind::kPunched) return "a connection that both sides open at once";
  return "the relay at " + route->address.text();
}

}  // namespace hearth

#include "proto/link/route.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace hearth {
namespace {

Ticket filled_ticket(unsigned char filled) {
  Ticket ticket;
  ticket.bytes.fill(std::byte{filled});
  return ticket;
}

TEST(Route, IsReadAsItWasWritten) {
  const Address four{"10.0.0.1", 4000};
  const Address six{"2001:db8::1", 1};
  for (const Route& route :
       {Route{RouteKind::kDirect, four, {}}, Route{RouteKind::kDirect, six, {}},
        Route{RouteKind::kReverse, {}, filled_ticket(0xab)},
        Route{RouteKind::kRelayed, four, filled_ticket(0x01)},
        Route{RouteKind::kPunched, four, filled_ticket(0x02), 4001},
        Route{RouteKind::kPunched, six, filled_ticket(0xfe), 65535},
        Route{RouteKind::kRelayed, six, filled_ticket(0xff)}}) {
    const Result<Route> read = parse_route(route.text());
    ASSERT_TRUE(read.ok()) << route.text() << ": " << read.error().message;
    EXPECT_EQ(read->kind, route.kind);
    EXPECT_EQ(read->address, route.address);
    EXPECT_EQ(read->ticket, route.ticket);
    EXPECT_EQ(read->control_port, route.control_port);
    EXPECT_EQ(is_direct_route(route.text()), route.kind == RouteKind::kDirect);
    EXPECT_LE(route.text().size(), limits::kAddressBytes);
  }
}

TEST(Route, RefusesEveryOtherText) {
  const std::string hex = filled_ticket(0x5c).hex();
  for (const std::string& text : {std::string(),
                                  std::string("relayed"),
                                  "relayed " + hex,
                                  "relayed " + hex + " ",
                                  "relayed " + hex + "10.0.0.1:1",
                                  "relayed " + hex + " example.org:1",
                                  "relayed " + hex.substr(2) + " 10.0.0.1:1",
                                  "relayed " + hex + "00 10.0.0.1:1",
                                  "reverse " + hex + " ",
                                  "reverse " + hex + " 10.0.0.1:1",
                                  "reverse " + hex.substr(1),
                                  "punched " + hex + " 10.0.0.1:1",
                                  "punched " + hex + " 10.0.0.1:1 ",
                                  "punched " + hex + " 10.0.0.1:1 0",
                                  "punched " + hex + " 10.0.0.1:1 01",
                                  "punched " + hex + " 10.0.0.1:1 65536",
                                  "punched " + hex + " 10.0.0.1:1 2 ",
                                  "punched " + hex + " 10.0.0.1:1 -2",
                                  "punched " + hex,
                                  "Relayed " + hex + " 10.0.0.1:1",
                                  "direct " + hex + " 10.0.0.1:1",
                                  hex}) {
    EXPECT_FALSE(parse_route(text).ok()) << text;
  }
}

TEST(Route, IsDescribedWithoutItsTicket) {
  const Route relayed{RouteKind::kRelayed, {"10.0.0.1", 4000}, filled_ticket(0x77)};
  EXPECT_EQ(describe_route(relayed.text()), "the relay at 10.0.0.1:4000");
  const Route reverse{RouteKind::kReverse, {}, filled_ticket(0x77)};
  EXPECT_EQ(describe_route(reverse.text()).find("77"), std::string::npos);
  const Route punched{RouteKind::kPunched, {"10.0.0.1", 4000}, filled_ticket(0x77), 4001};
  EXPECT_EQ(describe_route(punched.text()), "a connection that both sides open at once");
  EXPECT_EQ(describe_route("10.0.0.1:4000"), "10.0.0.1:4000");
}

}  // namespace
}  // namespace hearth

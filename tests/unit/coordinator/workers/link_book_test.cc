#include "coordinator/workers/link_book.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

struct LinkBookTest : ::testing::Test {
  testing::FakeClock clock;
  LinkBook book{clock};
  std::vector<Node> nodes;

  void add(const std::string& name, bool measured = true) {
    Node node;
    node.status.name = name;
    if (measured) node.status.measured = placement::Node{name, 0.0, {1e-3, 2e-3}, {}, 1};
    nodes.push_back(node);
  }
  std::vector<const Node*> all() const {
    std::vector<const Node*> pointers;
    for (const Node& node : nodes) pointers.push_back(&node);
    return pointers;
  }
  static control::v1::Probed probed(const std::string& to, double round_trip = 2e-3,
                                    double there = 1e8, double back = 5e7) {
    control::v1::Probed message;
    message.set_node(to);
    message.set_round_trip_seconds(round_trip);
    message.set_to_bytes_per_second(there);
    message.set_from_bytes_per_second(back);
    return message;
  }
};

TEST_F(LinkBookTest, MeasuresOneWayAfterTheOther) {
  for (const char* name : {"a", "b", "c"}) add(name);
  add("d", false);
  EXPECT_FALSE(book.complete(all()));
  for (int i = 0; i < 3; ++i) {
    const auto way = book.next(all());
    ASSERT_TRUE(way);
    EXPECT_FALSE(book.next(all())) << "one at a time";
    EXPECT_FALSE(book.complete(all()));
    book.take(way->from, probed(way->to));
  }
  EXPECT_FALSE(book.next(all()));
  EXPECT_TRUE(book.complete(all()));
  EXPECT_EQ(book.all().size(), 6U);
  EXPECT_EQ(book.find("a", "b").delay_seconds, 1e-3);
  EXPECT_EQ(book.find("a", "b").bytes_per_second, 1e8);
  EXPECT_EQ(book.find("b", "a").bytes_per_second, 5e7);
  EXPECT_EQ(book.find("a", "d").bytes_per_second, 0.0);
}

TEST_F(LinkBookTest, FiguresThatNoLinkHasAreAFailureAndTriedAgain) {
  add("a");
  add("b");
  const double nothing = std::nan("");
  for (const auto& bad :
       {probed("b", -1.0), probed("b", nothing), probed("b", 1e300), probed("b", 1e-3, 0.0),
        probed("b", 1e-3, 1e8, nothing), probed("b", 1e-3, 1e300)}) {
    ASSERT_TRUE(book.next(all()));
    book.take("a", bad);
    EXPECT_EQ(book.find("a", "b").bytes_per_second, 0.0);
    EXPECT_TRUE(book.complete(all())) << "a pipeline does not wait for it";
    EXPECT_FALSE(book.next(all()));
    clock.advance(std::chrono::seconds(30));
  }
  ASSERT_TRUE(book.next(all()));
  book.take("a", probed("b"));
  EXPECT_EQ(book.find("b", "a").bytes_per_second, 5e7);
}

struct RoutesTest : LinkBookTest {
  RoutesTest() {
    for (const char* name : {"a", "b"}) {
      add(name);
      nodes.back().status.protocol = kProtocolMeet;
    }
  }
  Node& a() { return nodes[0]; }
  Node& b() { return nodes[1]; }
  RouteKind next() {
    const auto way = routes.next(all());
    EXPECT_TRUE(way.has_value());
    return way ? way->route : RouteKind::kDirect;
  }
  static control::v1::Probed unreached() {
    control::v1::Probed message;
    message.set_node("b");
    message.set_error("connecting: timed out");
    message.set_unreached(true);
    return message;
  }
  LinkBook routes{clock, true};
};

TEST_F(RoutesTest, APunchedRouteIsTriedBeforeARelay) {
  LinkBook book{clock, true, true};
  const auto tried = [&] { return book.next(all())->route; };
  EXPECT_EQ(tried(), RouteKind::kDirect);
  book.take("a", unreached());
  EXPECT_EQ(tried(), RouteKind::kReverse);
  book.take("a", unreached());
  EXPECT_EQ(tried(), RouteKind::kRelayed) << "an older program cannot punch";
  book.take("a", probed("b", 8e-3, 1e6, 1e6));
  for (Node& node : nodes) node.status.protocol = kProtocolPunch;
  book.forget_routes("a", true);
  for (const RouteKind kind : {RouteKind::kDirect, RouteKind::kReverse, RouteKind::kPunched}) {
    EXPECT_EQ(tried(), kind);
    book.take("a", kind == RouteKind::kPunched ? probed("b") : unreached());
  }
  EXPECT_TRUE(book.complete(all()));
  EXPECT_EQ(book.route(a(), b()), RouteKind::kPunched);
  EXPECT_EQ(book.route(b(), a()), RouteKind::kPunched) << "it has no side that dials";
  for (const LinkStatus& link : book.all()) EXPECT_EQ(link.route, RouteKind::kPunched);
}

TEST_F(RoutesTest, APunchedRouteThatDoesNotOpenIsNotTriedForAWhile) {
  LinkBook book{clock, true, true};
  for (Node& node : nodes) node.status.protocol = kProtocolPunch;
  book.fail("a", "b", RouteKind::kDirect);
  book.fail("a", "b", RouteKind::kReverse);
  EXPECT_EQ(book.route(a(), b()), RouteKind::kPunched);
  // Of a pipeline in the other direction.
  book.fail("b", "a", RouteKind::kPunched);
  EXPECT_EQ(book.route(a(), b()), RouteKind::kRelayed);
  EXPECT_EQ(book.route(b(), a()), RouteKind::kRelayed);
  EXPECT_FALSE(book.is_open("a", "b"));
  clock.advance(std::chrono::minutes(10));
  for (const RouteKind kind : {RouteKind::kDirect, RouteKind::kReverse}) {
    book.fail("a", "b", kind);
  }
  EXPECT_EQ(book.route(a(), b()), RouteKind::kPunched);
  book.fail("a", "b", RouteKind::kPunched);
  book.forget_routes("b", false);
  book.fail("a", "b", RouteKind::kDirect);
  book.fail("a", "b", RouteKind::kReverse);
  EXPECT_EQ(book.route(a(), b()), RouteKind::kPunched) << "b has registered again";
}

TEST_F(RoutesTest, EachRouteIsTriedAtOnceWhenTheOneBeforeIsClosed) {
  EXPECT_EQ(next(), RouteKind::kDirect);
  routes.take("a", unreached());
  EXPECT_FALSE(routes.complete(all())) << "another route is left";
  EXPECT_EQ(next(), RouteKind::kReverse);
  routes.take("a", unreached());
  EXPECT_EQ(next(), RouteKind::kRelayed);
  routes.take("a", probed("b"));
  EXPECT_TRUE(routes.complete(all()));
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kRelayed);
  EXPECT_EQ(routes.route(b(), a()), RouteKind::kRelayed);
  EXPECT_EQ(routes.find("a", "b").bytes_per_second, 1e8) << "placement knows the relay's rate";
  for (const LinkStatus& link : routes.all()) EXPECT_EQ(link.route, RouteKind::kRelayed);
  EXPECT_FALSE(routes.next(all()));
}

TEST_F(RoutesTest, ARelayThatFailsIsTriedAgainLater) {
  for (int i = 0; i < 3; ++i) {
    next();
    routes.take("a", unreached());
  }
  EXPECT_TRUE(routes.complete(all())) << "a pipeline does not wait for it";
  EXPECT_FALSE(routes.next(all()));
  clock.advance(std::chrono::seconds(30));
  EXPECT_EQ(next(), RouteKind::kRelayed);
}

TEST_F(RoutesTest, ALinkThatOpenedAndWasSlowKeepsItsRoute) {
  EXPECT_EQ(next(), RouteKind::kDirect);
  control::v1::Probed slow = unreached();
  slow.set_unreached(false);
  routes.take("a", slow);
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kDirect);
}

TEST_F(RoutesTest, BehindRoutersOnlyTheRelayIsTried) {
  a().status.seen_host = "203.0.113.1";
  b().status.seen_host = "203.0.113.2";
  EXPECT_EQ(next(), RouteKind::kRelayed);
  EXPECT_TRUE(routes.is_closed(b()));
}

TEST_F(RoutesTest, NodesBehindOneRouterDialEachOther) {
  a().status.seen_host = b().status.seen_host = "203.0.113.1";
  EXPECT_EQ(next(), RouteKind::kDirect);
  EXPECT_TRUE(routes.is_closed(b())) << "from outside";
}

TEST_F(RoutesTest, ANodeBehindARouterOpensTheLinkToOneOutside) {
  b().status.seen_host = "203.0.113.2";
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kReverse);
  EXPECT_EQ(routes.route(b(), a()), RouteKind::kDirect);
  EXPECT_EQ(next(), RouteKind::kReverse);
  routes.take("a", probed("b"));
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kReverse);
  EXPECT_EQ(routes.route(b(), a()), RouteKind::kDirect);
}

TEST_F(RoutesTest, ABetterRouteIsTriedAfterAWhileAndUsedWhenItIsMeasured) {
  for (const RouteKind kind : {RouteKind::kDirect, RouteKind::kReverse, RouteKind::kRelayed}) {
    EXPECT_EQ(next(), kind);
    routes.take("a", kind == RouteKind::kRelayed ? probed("b", 8e-3, 1e6, 1e6) : unreached());
  }
  clock.advance(std::chrono::minutes(9));
  EXPECT_FALSE(routes.next(all()));
  clock.advance(std::chrono::minutes(2));
  EXPECT_EQ(next(), RouteKind::kDirect);
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kRelayed) << "not before it is measured";
  EXPECT_TRUE(routes.complete(all())) << "no pipeline waits for it";
  EXPECT_EQ(routes.find("a", "b").bytes_per_second, 1e6);
  const std::uint64_t changes = routes.changes();
  routes.take("a", probed("b"));
  EXPECT_NE(routes.changes(), changes);
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kDirect);
  EXPECT_EQ(routes.find("a", "b").bytes_per_second, 1e8);
}

TEST_F(RoutesTest, APipelinesLinkThatDidNotOpenTakesTheNextRoute) {
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kDirect);
  routes.fail("a", "b", RouteKind::kDirect);
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kReverse);
  EXPECT_EQ(routes.route(b(), a()), RouteKind::kDirect);
  routes.fail("a", "b", RouteKind::kReverse);
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kRelayed);
  routes.fail("a", "b", RouteKind::kRelayed);
  EXPECT_EQ(routes.route(b(), a()), RouteKind::kRelayed);
  routes.forget_routes("b", false);
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kDirect) << "b has registered again";
}

TEST_F(RoutesTest, AClosedRouteOfUnmeasuredNodesIsUsedAgainAfterAWhile) {
  routes.fail("a", "b", RouteKind::kDirect);
  routes.fail("b", "a", RouteKind::kDirect);
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kRelayed);
  EXPECT_TRUE(routes.is_closed(b()));
  clock.advance(std::chrono::minutes(10));
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kDirect);
  EXPECT_FALSE(routes.is_closed(b()));
}

TEST_F(RoutesTest, AMeasuredRouteThatAPipelineFoundClosedIsMeasuredAnew) {
  EXPECT_EQ(next(), RouteKind::kDirect);
  routes.take("a", probed("b"));
  EXPECT_FALSE(routes.next(all()));
  routes.fail("a", "b", RouteKind::kDirect);
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kReverse);
  EXPECT_EQ(next(), RouteKind::kReverse);
  routes.take("a", probed("b", 8e-3, 1e6, 1e6));
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kReverse);
  EXPECT_EQ(routes.find("a", "b").bytes_per_second, 1e6);
  EXPECT_FALSE(routes.next(all()));
  clock.advance(std::chrono::minutes(10));
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kReverse) << "not before it is measured";
  EXPECT_EQ(next(), RouteKind::kDirect);
  routes.take("a", probed("b"));
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kDirect) << "the failure was no lasting one";
}

TEST_F(RoutesTest, FiguresAreDroppedWhenNoRouteOpensAnyMore) {
  EXPECT_EQ(next(), RouteKind::kDirect);
  routes.take("a", probed("b"));
  routes.fail("a", "b", RouteKind::kDirect);
  EXPECT_EQ(next(), RouteKind::kReverse);
  routes.take("a", unreached());
  EXPECT_EQ(next(), RouteKind::kRelayed);
  routes.take("a", unreached());
  EXPECT_EQ(routes.find("a", "b").bytes_per_second, 0.0);
  EXPECT_TRUE(routes.all().empty());
  clock.advance(std::chrono::minutes(10));
  EXPECT_TRUE(routes.complete(all())) << "no pipeline waits for further attempts";
  EXPECT_EQ(next(), RouteKind::kDirect);
}

TEST_F(RoutesTest, ARegistrationForgetsRelayedLinksAndKeepsDirectOnes) {
  a().status.seen_host = "203.0.113.1";
  b().status.seen_host = "203.0.113.2";
  EXPECT_EQ(next(), RouteKind::kRelayed);
  routes.take("a", probed("b"));
  b().status.seen_host = a().status.seen_host;  // it was carried home
  routes.forget_routes("b", true);
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kDirect);
  EXPECT_TRUE(routes.all().empty());
  EXPECT_EQ(next(), RouteKind::kDirect);
  routes.take("a", probed("b"));
  routes.forget_routes("b", false);
  EXPECT_FALSE(routes.all().empty()) << "a direct link to the same place";
  routes.forget_routes("b", true);
  EXPECT_TRUE(routes.all().empty());
}

TEST_F(RoutesTest, APortThatARouterForwardsMakesADirectRoute) {
  a().status.seen_host = "203.0.113.1";
  b().status.seen_host = "203.0.113.2";
  EXPECT_EQ(next(), RouteKind::kRelayed);
  routes.take("a", probed("b"));
  EXPECT_FALSE(routes.next(all()));
  b().status.outside_port = 4711;
  routes.try_again("b");
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kRelayed) << "not used before it is measured";
  EXPECT_FALSE(routes.all().empty()) << "and the figures of the relay count until then";
  EXPECT_EQ(next(), RouteKind::kDirect);
  routes.take("a", probed("b"));
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kDirect);
  EXPECT_EQ(routes.route(b(), a()), RouteKind::kReverse);
  EXPECT_FALSE(routes.is_closed(b()));
  EXPECT_TRUE(routes.is_closed(a()));
  b().status.outside_port = 0;  // the router was exchanged
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kRelayed);
  EXPECT_EQ(next(), RouteKind::kRelayed);
}

TEST_F(RoutesTest, APortThatDoesNotOpenLeavesTheRelay) {
  a().status.seen_host = "203.0.113.1";
  b().status.seen_host = "203.0.113.2";
  EXPECT_EQ(next(), RouteKind::kRelayed);
  routes.take("a", probed("b"));
  b().status.outside_port = 4711;
  routes.try_again("b");
  EXPECT_EQ(next(), RouteKind::kDirect);
  routes.take("a", unreached());
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kRelayed);
  EXPECT_EQ(routes.find("a", "b").bytes_per_second, 1e8);
}

TEST_F(RoutesTest, AnOlderProgramDoesNotGetTheRouteMeasuredBefore) {
  a().status.seen_host = "203.0.113.1";
  EXPECT_EQ(routes.route(b(), a()), RouteKind::kReverse);
  b().status.protocol = kProtocolMeet - 1;
  EXPECT_EQ(routes.route(b(), a()), RouteKind::kDirect);
}

TEST_F(RoutesTest, OnlyAMeasuredDirectRouteIsOpen) {
  EXPECT_FALSE(routes.is_open("a", "b"));
  b().status.seen_host = "203.0.113.2";
  EXPECT_EQ(next(), RouteKind::kReverse);
  routes.take("a", probed("b"));
  EXPECT_FALSE(routes.is_open("a", "b"));
  EXPECT_TRUE(routes.is_open("b", "a"));
  routes.fail("b", "a", RouteKind::kDirect);
  EXPECT_FALSE(routes.is_open("b", "a"));
}

TEST_F(RoutesTest, AnOlderProgramKnowsTheDirectRouteAlone) {
  b().status.seen_host = "203.0.113.2";
  b().status.protocol = kProtocolMeet - 1;
  EXPECT_EQ(routes.route(a(), b()), RouteKind::kDirect);
  EXPECT_FALSE(routes.is_closed(b()));
}

TEST_F(LinkBookTest, WhoWasNotAskedSaysNothing) {
  for (const char* name : {"a", "b", "c"}) add(name);
  ASSERT_TRUE(book.next(all()));  // a to b
  book.take("b", probed("a"));
  book.take("a", probed("c"));
  EXPECT_TRUE(book.all().empty());
}

TEST_F(LinkBookTest, WhoSaysNothingIsNotWaitedForAndWhoIsGoneIsForgotten) {
  for (const char* name : {"a", "b", "c"}) add(name);
  ASSERT_TRUE(book.next(all()));
  clock.advance(std::chrono::seconds(10));
  const auto second = book.next(all());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->to, "c");
  book.take("a", probed("c"));
  EXPECT_EQ(book.all().size(), 2U);
  nodes.pop_back();
  book.next(all());
  EXPECT_TRUE(book.all().empty());
}

std::string name_of(int i) { return "n" + std::to_string(100 + i); }

TEST_F(LinkBookTest, OfManyOnlyNeighboursAreMeasured) {
  for (int i = 0; i < 60; ++i) add(name_of(i));
  int probes = 0;
  std::size_t ends = 0;
  while (const auto way = book.next(all())) {
    ++probes;
    if (probes == 60) ends = book.all().size();
    book.take(way->from, probed(way->to));
  }
  EXPECT_EQ(probes, 2 * 60);
  EXPECT_EQ(ends, 2 * 59U);
  EXPECT_TRUE(book.complete(all()));
  add("n1005");  // among them: its four ways alone
  probes = 0;
  while (const auto way = book.next(all())) {
    ++probes;
    EXPECT_TRUE(way->from == "n1005" || way->to == "n1005");
    book.take(way->from, probed(way->to));
  }
  EXPECT_EQ(probes, 4);
}

TEST_F(LinkBookTest, AWayThatNobodyTriedIsWhatItsEndsCanDoElsewhere) {
  for (const char* name : {"a", "b", "c", "d", "e"}) add(name);
  while (const auto way = book.next(all())) {
    const bool failed = way->from == "a" && way->to == "d";
    const bool never = way->from == "a" && way->to == "c";
    if (never) break;  // and none after it: (a, b) alone is known
    book.take(way->from, failed ? probed(way->to, -1.0) : probed(way->to, 4e-3, 3e7, 2e7));
  }
  auto links = book.between(all());
  EXPECT_EQ(links[0 * 5 + 1].bytes_per_second, 3e7) << "measured";
  EXPECT_EQ(links[1 * 5 + 0].bytes_per_second, 2e7);
  EXPECT_EQ(links[0 * 5 + 2].bytes_per_second, 0.0) << "c has no way at all";
  clock.advance(std::chrono::seconds(10));
  while (const auto way = book.next(all())) {
    if (way->from == "b" && way->to == "c") {
      book.take(way->from, probed(way->to, 8e-3, 9e7, 1e7));
    } else {
      book.take(way->from, probed(way->to, -1.0));
      if (way->from == "b" && way->to == "d") break;
    }
  }
  links = book.between(all());
  EXPECT_EQ(links[1 * 5 + 2].bytes_per_second, 9e7);
  EXPECT_EQ(links[0 * 5 + 2].bytes_per_second, 0.0) << "it was tried and failed";
  EXPECT_EQ(links[2 * 5 + 0].bytes_per_second, 0.0);
  EXPECT_EQ(links[1 * 5 + 3].bytes_per_second, 0.0) << "d has no way at all";
}

TEST_F(LinkBookTest, OfManyTheOthersAreSeenByTheirNeighbours) {
  for (int i = 0; i < 40; ++i) add(name_of(i));
  while (const auto way = book.next(all())) {
    const bool slow = way->from == name_of(7) || way->to == name_of(7);
    book.take(way->from, slow ? probed(way->to, 2e-2, 1e6, 1e6) : probed(way->to));
  }
  const auto links = book.between(all());
  EXPECT_EQ(links[0 * 40 + 20].bytes_per_second, 1e8);
  EXPECT_EQ(links[0 * 40 + 20].delay_seconds, 1e-3);
  EXPECT_EQ(links[7 * 40 + 20].bytes_per_second, 1e6);
  EXPECT_EQ(links[20 * 40 + 7].bytes_per_second, 1e6);
  EXPECT_EQ(links[20 * 40 + 7].delay_seconds, 1e-2);
}

}  // namespace
}  // namespace hearth::coordinator

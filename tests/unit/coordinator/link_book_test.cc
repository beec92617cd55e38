#include "coordinator/link_book.h"

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

}  // namespace
}  // namespace hearth::coordinator

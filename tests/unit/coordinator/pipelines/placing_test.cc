#include "coordinator/pipelines/placing.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

// Eight layers of 100 bytes; nodes of a millisecond a layer on links of a tenth of one.
struct PlacingTest : ::testing::Test {
  PlacingTest() : options(testing::swarm_options(0)) {
    options.layers = 8;
    options.placement.emplace();
    options.placement->model = {std::vector<std::uint64_t>(8, 100), 0, 0, 1'000, 0};
  }

  CoordinatorOptions options;
  testing::FakeClock clock;
  Registry registry{options, clock};
  LinkBook links{clock};
  Placing placing{options, clock, links};
  std::uint64_t next_link = 1;

  void add(const std::string& name, std::uint64_t memory, double layer = 1e-3) {
    auto body = testing::worker(name);
    body.set_layers(8);
    Node& node = **registry.add(LinkId(next_link++), body);
    node.status.measured = placement::Node{name, 0.0, {layer, 2.0 * layer}, {}, memory};
  }
  void measure_ways() {
    while (const auto way = links.next(registry.all())) {
      control::v1::Probed probed;
      probed.set_node(way->to);
      probed.set_round_trip_seconds(2e-4);
      probed.set_to_bytes_per_second(1e9);
      probed.set_from_bytes_per_second(1e9);
      links.take(way->from, probed);
    }
  }
  // As serving leaves it.
  void load(const Placed& placed) {
    for (std::uint32_t i = 0; i < placed.nodes.size(); ++i) {
      placed.nodes[i]->status.stage = i;
      placed.nodes[i]->status.layers = placed.layers[i];
      placed.nodes[i]->loaded = true;
    }
  }
  static std::string text(const std::optional<Placed>& placed) {
    std::string text;
    for (std::size_t i = 0; placed && i < placed->nodes.size(); ++i) {
      text += placed->nodes[i]->status.name + " " + std::to_string(placed->layers[i].begin) + "-" +
              std::to_string(placed->layers[i].end) + "; ";
    }
    return text;
  }
  void settle() {
    measure_ways();
    clock.advance(std::chrono::seconds(3));
    for (const Node* node : registry.all()) registry.find(node->link)->last_heard = clock.now();
  }
};

TEST_F(PlacingTest, WaitsForThoseWhoComeAndForTheirWays) {
  add("a", 400);
  add("b", 400);
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  EXPECT_NE(placing.waiting().find("still joining"), std::string::npos) << placing.waiting();
  clock.advance(std::chrono::seconds(3));
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  EXPECT_EQ(placing.waiting(), "the links between the nodes are being measured");
  measure_ways();
  EXPECT_EQ(text(placing.choose(registry.free_nodes())), "a 0-4; b 4-8; ");
}

TEST_F(PlacingTest, TakesAsManyAsAreBestAndSaysWhyOthersAreSpare) {
  add("a", 800);
  add("b", 800);
  settle();
  EXPECT_EQ(text(placing.choose(registry.free_nodes())), "a 0-8; ");
  EXPECT_EQ(placing.why_spare("b"),
            "adding it makes the pipeline slower: 122 instead of 125 tokens/s");
  EXPECT_EQ(placing.why_spare("a"), "");
}

TEST_F(PlacingTest, AsManyStagesAsWereAskedFor) {
  options.stages = 2;
  add("a", 800);
  add("b", 800, 3e-3);
  settle();
  EXPECT_EQ(text(placing.choose(registry.free_nodes())), "a 0-7; b 7-8; ");
}

TEST_F(PlacingTest, WhoHasLoadedKeepsItWhereThatCostsLittle) {
  for (const char* name : {"a", "b", "c"}) add(name, 300);
  add("d", 300, 1.01e-3);
  settle();
  const auto first = placing.choose(registry.free_nodes());
  ASSERT_EQ(text(first), "a 0-3; c 3-5; b 5-8; ");
  load(*first);
  registry.lose(*registry.find("c"));
  EXPECT_EQ(text(placing.choose(registry.free_nodes())), "a 0-3; d 3-5; b 5-8; ");
}

TEST_F(PlacingTest, AndNotWhereItCostsMuch) {
  add("a", 800);
  add("b", 300, 1e-2);
  add("c", 800, 2e-3);
  settle();
  load({{registry.find("b"), registry.find("c")}, {{0, 3}, {3, 8}}});
  EXPECT_EQ(text(placing.choose(registry.free_nodes())), "a 0-8; ");
}

TEST_F(PlacingTest, WhoIsInDoubtIsTakenLast) {
  for (const char* name : {"a", "b", "c"}) add(name, 400);
  settle();
  registry.strike(*registry.find("a"));
  const auto placed = placing.choose(registry.free_nodes());
  EXPECT_EQ(text(placed), "b 0-4; c 4-8; ");
  registry.lose(*registry.find("b"));
  EXPECT_EQ(text(placing.choose(registry.free_nodes())).size(), text(placed).size());
}

TEST_F(PlacingTest, WhoMeasuredNothingIsNotPlaced) {
  add("a", 800);
  registry.find("a")->status.measured.reset();
  clock.advance(std::chrono::seconds(20));
  registry.find("a")->last_heard = clock.now();
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  EXPECT_EQ(placing.waiting(), "no node has measured itself");
  add("b", 100);
  settle();
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  EXPECT_NE(placing.waiting().find("no placement"), std::string::npos) << placing.waiting();
  add("c", 800);
  settle();
  EXPECT_EQ(text(placing.choose(registry.free_nodes())), "c 0-8; ");
  EXPECT_EQ(placing.why_spare("a"), "it has not measured itself");
}

struct AutoPlacingTest : PlacingTest {
  AutoPlacingTest() { options.placement->objective = placement::Objective::kAuto; }

  // Where nothing is loaded.
  std::string chosen(std::vector<Node*> free) { return text(placing.choose(std::move(free))); }
  Placed running(const std::vector<std::string>& names, std::vector<LayerRange> layers) {
    Placed placed{{}, std::move(layers)};
    for (const std::string& name : names) placed.nodes.push_back(registry.find(name));
    return placed;
  }
};

TEST_F(AutoPlacingTest, WaysThatAreNotMeasuredAreNotWaitedFor) {
  add("b", 400);
  add("a", 400);
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(chosen(registry.free_nodes()), "a 0-4; b 4-8; ");
}

TEST_F(AutoPlacingTest, ANodeIsWaitedForWhileItMayMeasureItself) {
  add("a", 800);
  add("b", 800);
  registry.find("b")->status.measured.reset();
  clock.advance(std::chrono::seconds(4));
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(chosen({registry.find("a"), registry.find("b")}), "a 0-8; ");
}

TEST_F(AutoPlacingTest, FewerStagesCountMoreThanATenth) {
  add("a", 800, 1.2e-3);
  add("b", 700, 1.1e-3);
  settle();
  EXPECT_EQ(chosen(registry.free_nodes()), "a 0-8; ");
}

TEST_F(AutoPlacingTest, WhatGainsMoreThanATenthReplacesWhatRuns) {
  add("a", 400);
  add("b", 400);
  add("c", 800, 5e-4);
  const std::vector<Placed> all = {running({"a", "b"}, {{0, 4}, {4, 8}})};
  EXPECT_FALSE(placing.better(registry.free_nodes(), all)) << "its ways are not measured";
  settle();
  const auto better = placing.better(registry.free_nodes(), all);
  ASSERT_TRUE(better);
  ASSERT_EQ(better->pipelines.size(), 2U);
  EXPECT_EQ(text(better->pipelines[0]), "c 0-8; ");
  EXPECT_EQ(text(better->pipelines[1]), "a 0-4; b 4-8; ");
  EXPECT_NE(better->gain.find("one stream 250 tokens/s instead of 122"), std::string::npos)
      << better->gain;
  placing.adopt(*better);
  EXPECT_EQ(chosen(registry.free_nodes()), "c 0-8; ");
  EXPECT_EQ(chosen({registry.find("b"), registry.find("a")}), "a 0-4; b 4-8; ");
}

TEST_F(AutoPlacingTest, WhatGainsLessDoesNot) {
  add("a", 400);
  add("b", 400);
  add("c", 400, 9.5e-4);
  settle();
  EXPECT_FALSE(placing.better(registry.free_nodes(), {running({"a", "b"}, {{0, 4}, {4, 8}})}));
  // Nor would one that costs the same.
  EXPECT_FALSE(placing.better(registry.free_nodes(), {running({"a", "c"}, {{0, 4}, {4, 8}})}));
}

TEST_F(AutoPlacingTest, APlanWhoseNodesAreNotThereIsDropped) {
  add("a", 800);
  add("b", 800);
  settle();
  placing.adopt({{running({"a"}, {{0, 8}}), running({"b"}, {{0, 8}})}, ""});
  EXPECT_EQ(chosen({registry.find("b")}), "b 0-8; ") << "as without it";
  EXPECT_EQ(chosen(registry.free_nodes()), "a 0-8; ");
}

TEST_F(PlacingTest, WaitsForThoseWhoMeasureInTurn) {
  const auto pass = [&](int seconds) {
    clock.advance(std::chrono::seconds(seconds));
    for (const Node* node : registry.all()) registry.find(node->link)->last_heard = clock.now();
    return placing.choose(registry.free_nodes()).has_value();
  };
  for (const char* name : {"a", "b", "c", "never"}) add(name, 400);
  std::vector<std::optional<placement::Node>> figures;
  for (Node* node : registry.free_nodes()) {
    figures.push_back(std::exchange(node->status.measured, std::nullopt));
  }
  const auto measures = [&](std::size_t i) {
    Node* node = registry.free_nodes()[i];
    node->status.measured = figures[i];
    node->measured_at = clock.now();
    measure_ways();
  };
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(pass(15)) << i;
    EXPECT_TRUE(placing.hopes());
    measures(i);
  }
  EXPECT_FALSE(pass(15)) << "the last one's turn";
  EXPECT_TRUE(placing.hopes());
  EXPECT_TRUE(pass(5));
  EXPECT_EQ(placing.why_spare("never"), "it has not measured itself");
}

TEST_F(PlacingTest, SaysWhoIsBeingMeasured) {
  const auto waiting = [&] {
    for (Node* node : registry.free_nodes()) node->status.measured.reset();
    settle();
    EXPECT_FALSE(placing.choose(registry.free_nodes()));
    return placing.waiting();
  };
  add("a", 400);
  add("b", 400);
  EXPECT_EQ(waiting(), "being measured, one of a machine at a time: a, b");
  for (const char* name : {"c", "d", "e", "f"}) add(name, 400);
  EXPECT_EQ(waiting(), "being measured, one of a machine at a time: a, b, c, d and 2 more");
}

TEST_F(PlacingTest, AndNotForEver) {
  add("never", 400);
  registry.find("never")->status.measured.reset();
  // One after another comes and measures itself.
  int seconds = 0;
  for (; seconds < 200; seconds += 10) {
    add("node" + std::to_string(seconds), 400);
    settle();
    if (placing.choose(registry.free_nodes())) break;
    clock.advance(std::chrono::seconds(7));
    for (const Node* node : registry.all()) registry.find(node->link)->last_heard = clock.now();
  }
  EXPECT_GT(seconds, 50);
  EXPECT_LE(seconds, 80);
}

// The whole file is nowhere; what is on the disk is where it is.
void hold(Node& node, LayerRange layers, std::uint64_t done = 100) {
  node.status.partial = true;
  node.status.held = layers;
  node.status.held_bytes = done;
  node.status.held_total = 100;
}

TEST_F(PlacingTest, ALossWaitsForOneThatIsBeingMeasured) {
  add("a", 400);
  add("b", 400);
  settle();
  load(*placing.choose(registry.free_nodes()));
  add("c", 400);
  Node& c = *registry.find("c");
  const auto measured = std::exchange(c.status.measured, std::nullopt);
  registry.lose(*registry.find("b"));
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  EXPECT_TRUE(placing.hopes());
  EXPECT_EQ(placing.why_spare("c"), "");
  c.status.measured = measured;
  c.measured_at = clock.now();
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  EXPECT_TRUE(placing.hopes()) << "its way is to be measured";
  measure_ways();
  EXPECT_EQ(text(placing.choose(registry.free_nodes())), "a 0-4; c 4-8; ");
}

TEST_F(PlacingTest, AndForNoneThatCameLongAgo) {
  add("a", 400);
  add("b", 400);
  settle();
  load(*placing.choose(registry.free_nodes()));
  add("c", 100);
  settle();
  registry.find("b")->status.measured.reset();
  EXPECT_FALSE(placing.choose({registry.find("c")}, true));
  EXPECT_FALSE(placing.hopes());
  EXPECT_NE(placing.why_spare("c"), "") << "it came after the others had been placed";
  registry.find("c")->status.measured.reset();
  EXPECT_FALSE(placing.choose({registry.find("c")}, true));
  EXPECT_TRUE(placing.hopes());
  clock.advance(std::chrono::seconds(17));
  EXPECT_FALSE(placing.choose({registry.find("c")}, true));
  EXPECT_FALSE(placing.hopes());
  EXPECT_EQ(placing.waiting(), "no node has measured itself");
}

TEST_F(PlacingTest, WhoHoldsLayersOnItsDiskKeepsThemWhereThatCostsLittle) {
  for (const char* name : {"a", "b"}) add(name, 800);
  options.stages = 2;
  settle();
  const std::string best = text(placing.choose(registry.free_nodes()));
  hold(*registry.find("a"), {5, 8});
  hold(*registry.find("b"), {0, 5});
  add("late", 100);  // holds nothing: another question, with the same answer
  settle();
  EXPECT_NE(best, "b 0-5; a 5-8; ");
  EXPECT_EQ(text(placing.choose(registry.free_nodes())), "b 0-5; a 5-8; ");
}

TEST_F(PlacingTest, WhatIsSureIsWithoutASearchAndWithoutFetching) {
  for (const char* name : {"a", "b", "c"}) add(name, 400);
  settle();
  const auto nodes = [&] { return registry.free_nodes(); };
  EXPECT_TRUE(placing.sure(nodes()).empty()) << "nothing is loaded, and none holds everything";
  load({{registry.find("a"), registry.find("b")}, {{0, 4}, {4, 8}}});
  EXPECT_EQ(placing.sure(nodes()).size(), 3U);
  EXPECT_EQ(placing.sure({registry.find("a"), registry.find("c")}).size(), 2U);
  hold(*registry.find("c"), {4, 8}, 50);
  EXPECT_TRUE(placing.sure({registry.find("a"), registry.find("c")}).empty()) << "c has to fetch";
  hold(*registry.find("c"), {4, 8});
  EXPECT_EQ(placing.sure({registry.find("a"), registry.find("c")}).size(), 2U);
  registry.find("b")->status.measured.reset();
  EXPECT_TRUE(placing.sure({registry.find("a"), registry.find("b")}).empty());
}

struct ManyNodesTest : PlacingTest {
  std::vector<std::function<void()>> works;

  ManyNodesTest() {
    options.placement->elsewhere = [this](std::function<void()> work) {
      works.push_back(std::move(work));
    };
    for (int i = 0; i < 10; ++i) add("n" + std::to_string(i), 400);
    settle();
  }
};

TEST_F(ManyNodesTest, TheSearchIsMadeElsewhereAndIsWaitedFor) {
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  EXPECT_TRUE(placing.hopes());
  EXPECT_EQ(placing.waiting(), "the best placement is being searched for");
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  ASSERT_EQ(works.size(), 1U) << "once";
  works[0]();
  const auto placed = placing.choose(registry.free_nodes());
  ASSERT_TRUE(placed);
  EXPECT_FALSE(placing.hopes());
  EXPECT_EQ(placed->nodes.size(), 2U);
  EXPECT_EQ(works.size(), 1U);
}

TEST_F(ManyNodesTest, AnAnswerToAnotherQuestionIsNone) {
  EXPECT_FALSE(placing.choose(registry.free_nodes()));
  registry.lose(*registry.find("n0"));
  works[0]();
  EXPECT_FALSE(placing.choose(registry.free_nodes())) << "n0 may be part of it";
  ASSERT_EQ(works.size(), 2U);
  works[1]();
  const auto placed = placing.choose(registry.free_nodes());
  ASSERT_TRUE(placed);
  for (const Node* node : placed->nodes) EXPECT_NE(node->status.name, "n0");
}

TEST_F(ManyNodesTest, WhatIsLoadedWaitsForNoSearch) {
  load({{registry.find("n3"), registry.find("n4")}, {{0, 4}, {4, 8}}});
  registry.lose(*registry.find("n4"));
  const auto placed = placing.choose(registry.free_nodes());
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->nodes[0]->status.name, "n3");
  EXPECT_EQ(placed->layers[1], (LayerRange{4, 8}));
  EXPECT_TRUE(works.empty());
}

}  // namespace
}  // namespace hearth::coordinator

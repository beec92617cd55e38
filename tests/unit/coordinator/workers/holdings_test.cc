#include "coordinator/workers/holdings.h"

#include <gtest/gtest.h>

#include "coordinator/pipelines/pipelines.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

const std::vector<LayerRange> kStages = {{0, 2}, {2, 4}};

struct HoldingsTest : ::testing::Test {
  CoordinatorOptions options = testing::swarm_options(2);
  testing::FakeClock clock;
  Registry registry{options, clock};
  Pipelines pipelines{options, clock, registry};
  std::uint64_t next_link = 1;

  Node& whole(const std::string& name) {
    return **registry.add(LinkId(next_link++), testing::worker(name));
  }
  // Of 100 bytes so many are there.
  Node& partial(const std::string& name, LayerRange held = {}, std::uint64_t bytes = 100) {
    control::v1::Register body = testing::worker(name);
    auto& holding = *body.mutable_holding();
    holding.mutable_layers()->set_begin(held.begin);
    holding.mutable_layers()->set_end(held.end);
    holding.set_done(held.size() > 0 ? bytes : 0);
    holding.set_total(held.size() > 0 ? 100 : 0);
    EXPECT_TRUE(registry.check(body).ok());
    Node& node = **registry.add(LinkId(next_link++), body);
    node.plan = choose_holding(kStages, node, registry.all()).layers;
    return node;
  }
};

TEST_F(HoldingsTest, EachIsToldWhatTheFewestHold) {
  EXPECT_EQ(partial("a").plan, (LayerRange{0, 2}));
  EXPECT_EQ(partial("b").plan, (LayerRange{2, 4}));
  const Node& c = partial("c");
  EXPECT_EQ(c.plan, (LayerRange{0, 2}));
  const HoldChoice choice = choose_holding(kStages, c, registry.all());
  EXPECT_EQ(choice.why,
            "stage 1 of 2, the model's 4 layers in equal shares; other nodes that hold these: 1");
  registry.lose(*registry.find("a"));
  EXPECT_EQ(choose_holding(kStages, c, registry.all()).layers, (LayerRange{0, 2}));
}

TEST_F(HoldingsTest, WhatIsOnTheDiskStays) {
  EXPECT_EQ(partial("a", {2, 4}).plan, (LayerRange{2, 4}));
  EXPECT_EQ(partial("b", {2, 4}).plan, (LayerRange{2, 4}));
  EXPECT_EQ(partial("c", {1, 3}).plan, (LayerRange{0, 2})) << "of another split";
}

TEST_F(HoldingsTest, AWorkerWithTheFileCountsForWhatItServes) {
  Node& server = whole("server");
  EXPECT_EQ(partial("a").plan, (LayerRange{0, 2}));
  registry.assign(server, Epoch(1), 0, {0, 2});
  EXPECT_EQ(choose_holding(kStages, *registry.find("a"), registry.all()).layers,
            (LayerRange{2, 4}));
}

TEST_F(HoldingsTest, ASmallCardHoldsLess) {
  Node& small = partial("a");
  small.status.layers_most = 1;
  EXPECT_EQ(choose_holding(kStages, small, registry.all()).layers, (LayerRange{0, 1}));
}

TEST_F(HoldingsTest, HoldersTakeTheirOwnStage) {
  partial("a", {2, 4});
  partial("b", {0, 2});
  const Pipeline* pipeline = pipelines.form();
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->members[0].node, "b");
  EXPECT_EQ(pipeline->members[1].node, "a");
}

TEST_F(HoldingsTest, WhoHasTheLayersGoesBeforeWhoFetchesThem) {
  partial("a", {0, 2}, 10);
  partial("b", {0, 2});
  whole("c");
  const Pipeline* pipeline = pipelines.form();
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->members[0].node, "b");
  EXPECT_EQ(pipeline->members[1].node, "c") << "it has the file";
}

TEST_F(HoldingsTest, ABlankNodeWaitsForNobodyAndAHolderOfOthersAWhile) {
  partial("a", {0, 2});
  Node& b = partial("b", {0, 2});
  b.plan = {0, 2};
  EXPECT_EQ(pipelines.form(), nullptr) << "one of them would have to fetch";
  clock.advance(std::chrono::seconds(3));
  const Pipeline* pipeline = pipelines.form();
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->members[1].layers, (LayerRange{2, 4}));
  pipelines.end(pipeline->epoch, {});
  registry.lose(b);
  partial("c");
  EXPECT_NE(pipelines.form(), nullptr);
}

TEST_F(HoldingsTest, WhatCannotBeHeldIsRefused) {
  control::v1::Register body = testing::worker("a");
  body.mutable_holding()->mutable_layers()->set_end(5);
  EXPECT_FALSE(registry.check(body).ok());
  body.mutable_holding()->mutable_layers()->set_end(4);
  EXPECT_TRUE(registry.check(body).ok());
  body.mutable_holding()->set_done(1);
  EXPECT_FALSE(registry.check(body).ok());
  Node& node = partial("b", {0, 2}, 50);
  registry.hold(node, body.holding());
  EXPECT_EQ(node.status.held_bytes, 50U) << "as it was";
  EXPECT_FALSE(holds(node.status, {0, 2}));
  EXPECT_TRUE(holds(whole("c").status, {0, 4}));
}

}  // namespace
}  // namespace hearth::coordinator

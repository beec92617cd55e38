#include "coordinator/pipelines/pipelines.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

struct PipelinesTest : ::testing::Test {
  CoordinatorOptions options = testing::swarm_options(3);
  testing::FakeClock clock;
  Registry registry{options, clock};
  Pipelines pipelines{options, clock, registry};
  std::uint64_t next_link = 1;

  void add(const std::string& name) {
    ASSERT_TRUE(registry.add(LinkId(next_link++), testing::worker(name)).ok());
  }
  static control::v1::StageReady ready(std::uint32_t pages, std::uint32_t tokens) {
    control::v1::StageReady message;
    message.set_kv_pages(pages);
    message.set_kv_page_tokens(tokens);
    return message;
  }
};

TEST_F(PipelinesTest, FormsWhenEnoughAreFreeWithLayersSplitAndRingClosed) {
  add("a");
  add("b");
  EXPECT_EQ(pipelines.form(), nullptr);
  add("c");
  const Pipeline* pipeline = pipelines.form();
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipelines.form(), nullptr);
  const auto first = pipelines.assign_message(*pipeline, 0, "here:1");
  const auto last = pipelines.assign_message(*pipeline, 2, "here:1");
  EXPECT_EQ(first.epoch(), options.first_epoch);
  EXPECT_EQ(first.layers().begin(), 0u);
  EXPECT_EQ(first.layers().end(), 2u);
  EXPECT_EQ(first.next_address(), "b:data");
  EXPECT_EQ(first.batches_in_flight(), 4u);
  EXPECT_EQ(last.layers().end(), 4u);
  EXPECT_EQ(last.next_address(), "a:data");
  EXPECT_EQ(last.coordinator_address(), "here:1");
  EXPECT_EQ(pipeline->describe(1), "worker b (stage 2 of 3, layers 2-2)");
}

TEST_F(PipelinesTest, RunsAsManySequencesAsTheStageWithTheFewestStates) {
  for (const char* name : {"a", "b", "c"}) add(name);
  Pipeline& pipeline = *pipelines.form();
  const std::uint32_t unbounded = pipeline.sequences;
  control::v1::StageReady with = ready(8, 32);
  ASSERT_TRUE(pipelines.ready(pipeline, 0, with).ok());
  EXPECT_EQ(pipeline.sequences, unbounded) << "sequences of this model keep no state";
  EXPECT_TRUE(pipeline.keeps_prefixes);
  with.set_sequences(5);
  ASSERT_TRUE(pipelines.ready(pipeline, 1, with).ok());
  with.set_sequences(9);
  ASSERT_TRUE(pipelines.ready(pipeline, 2, with).ok());
  EXPECT_EQ(pipeline.sequences, 5U);
  EXPECT_FALSE(pipeline.keeps_prefixes);
}

TEST_F(PipelinesTest, ByHandItIsThoseThatAreNamedWithTheirLayersAndNobodyElse) {
  options.by_hand = {{"c", {0, 3}}, {"a", {3, 4}}};
  options.stages = 2;
  add("a");
  add("b");
  EXPECT_EQ(pipelines.form(), nullptr);
  add("c");
  const Pipeline* pipeline = pipelines.form();
  ASSERT_NE(pipeline, nullptr);
  ASSERT_EQ(pipeline->members.size(), 2U);
  EXPECT_EQ(pipeline->members[0].node, "c");
  EXPECT_EQ(pipeline->members[0].layers, (LayerRange{0, 3}));
  EXPECT_EQ(pipeline->members[1].node, "a");
  EXPECT_EQ(pipelines.form(), nullptr);
  EXPECT_EQ(pipelines.successor(*pipeline), (std::vector<std::string>{"c", "a"}));
  registry.find("a")->status.away = Away{true, 0, ""};
  EXPECT_TRUE(pipelines.successor(*pipeline).empty());
}

TEST_F(PipelinesTest, LayersThatDoNotFitAreLeftToOthers) {
  const auto add_with = [&](const std::string& name, std::uint32_t layers_most) {
    control::v1::Register body = testing::worker(name);
    body.set_layers_most(layers_most);
    ASSERT_TRUE(registry.add(LinkId(next_link++), body).ok());
  };
  add_with("small", 1);
  add_with("tiny", 1);
  add_with("card", 1);
  EXPECT_EQ(pipelines.form(), nullptr) << "room for three of four layers";
  add("processor");
  const Pipeline* pipeline = pipelines.form();
  ASSERT_NE(pipeline, nullptr);
  EXPECT_EQ(pipeline->members[0].node, "processor");
  EXPECT_EQ(pipeline->members[0].layers, (LayerRange{0, 2}));
  EXPECT_EQ(pipeline->members[1].node, "small");
  EXPECT_EQ(pipeline->members[2].layers, (LayerRange{3, 4}));
}

TEST_F(PipelinesTest, TheSmallestStageCountsAndPagesMustAgree) {
  for (const char* name : {"a", "b", "c"}) add(name);
  Pipeline& pipeline = *pipelines.form();
  EXPECT_FALSE(pipelines.ready(pipeline, 0, ready(0, 32)).ok());
  EXPECT_FALSE(pipelines.ready(pipeline, 0, ready(9, 0)).ok());
  EXPECT_FALSE(pipelines.ready(pipeline, 0, ready(9, 70'000)).ok());
  EXPECT_TRUE(pipelines.ready(pipeline, 0, ready(9, 32)).ok());
  EXPECT_FALSE(pipelines.ready(pipeline, 1, ready(9, 16)).ok());
  EXPECT_TRUE(pipelines.ready(pipeline, 1, ready(7, 32)).ok());
  EXPECT_FALSE(pipeline.all_ready());
  EXPECT_TRUE(pipelines.ready(pipeline, 2, ready(11, 32)).ok());
  EXPECT_TRUE(pipeline.all_ready());
  EXPECT_EQ(pipeline.kv_pages, 7u);
}

TEST_F(PipelinesTest, EveryFormationHasANewEpochAndTheCulpritRests) {
  for (const char* name : {"a", "b", "c", "d"}) add(name);
  const Epoch first = pipelines.form()->epoch;
  pipelines.end(first, {"b"});
  EXPECT_EQ(pipelines.find(first), nullptr);
  const Pipeline* second = pipelines.form();
  ASSERT_NE(second, nullptr) << "a, c and d are free";
  EXPECT_GT(second->epoch, first);
  for (const Member& member : second->members) EXPECT_NE(member.node, "b");
}

// After a loss a node that has loaded a stage keeps it, and a spare takes the lost one.
TEST_F(PipelinesTest, WhoHasLoadedAStageGetsItAgain) {
  for (const char* name : {"a", "b", "c", "d", "e"}) add(name);
  const Epoch first = pipelines.form()->epoch;
  for (const char* name : {"a", "b", "c"}) registry.find(name)->loaded = true;
  registry.lose(*registry.find("b"));
  pipelines.end(first, {"b"});
  const Pipeline* second = pipelines.form();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->members[0].node, "a");
  EXPECT_EQ(second->members[1].node, "d");
  EXPECT_EQ(second->members[2].node, "c");
  EXPECT_TRUE(registry.find("a")->loaded);
  EXPECT_FALSE(registry.find("d")->loaded);
}

TEST_F(PipelinesTest, WhoMayBeFrozenIsNotChosenWhileOthersAreThere) {
  for (const char* name : {"a", "b", "c", "d"}) add(name);
  const Epoch first = pipelines.form()->epoch;
  for (const char* name : {"a", "b", "c"}) registry.find(name)->loaded = true;
  clock.advance(std::chrono::milliseconds(501));
  for (const char* name : {"b", "c", "d"}) registry.find(name)->last_heard = clock.now();
  pipelines.end(first, {});
  const Pipeline* second = pipelines.form();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->members[0].node, "d");
  EXPECT_EQ(second->members[1].node, "b");
  EXPECT_EQ(second->members[2].node, "c");
}

// A lost link is one end's fault. A node that is part of every such loss is left out in the end.
TEST_F(PipelinesTest, WhoIsAtOneEndOfEveryLostLinkIsChosenLast) {
  for (const char* name : {"a", "b", "c", "d"}) add(name);
  const auto lose_link = [&](const Pipeline& pipeline, const char* one, const char* other) {
    for (const char* name : {one, other}) registry.strike(*registry.find(name));
    pipelines.end(pipeline.epoch, {one});
    clock.advance(std::chrono::seconds(1));
  };
  lose_link(*pipelines.form(), "a", "b");
  const auto names = [](const Pipeline& pipeline) {
    std::set<std::string> found;
    for (const Member& member : pipeline.members) found.insert(member.node);
    return found;
  };
  const Pipeline* second = pipelines.form();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(names(*second), (std::set<std::string>{"b", "c", "d"})) << "b was not the one to fail";
  lose_link(*second, "b", "c");
  const Pipeline* third = pipelines.form();
  EXPECT_EQ(names(*third), (std::set<std::string>{"a", "c", "d"})) << "b has two strikes";
  clock.advance(std::chrono::seconds(60));
  pipelines.end(third->epoch, {});
  ASSERT_EQ(registry.free_nodes().size(), 4u);
  for (const Node* node : registry.free_nodes()) EXPECT_EQ(node->strikes, 0u) << "long ago";
}

TEST_F(PipelinesTest, TheSlowMemberGoesToTheBack) {
  for (const char* name : {"a", "b", "c", "d"}) add(name);
  Pipeline& pipeline = *pipelines.form();
  const Epoch epoch = pipeline.epoch;
  ASSERT_TRUE(pipelines.ready(pipeline, 0, ready(9, 32)).ok());
  ASSERT_TRUE(pipelines.ready(pipeline, 2, ready(9, 32)).ok());
  EXPECT_TRUE(pipelines.overdue().empty());
  clock.advance(options.forming_timeout);
  ASSERT_EQ(pipelines.overdue(), std::vector<Epoch>{epoch});
  pipelines.end(epoch, {});
  const Pipeline* second = pipelines.form();
  ASSERT_NE(second, nullptr);
  std::vector<std::string> names;
  for (const Member& member : second->members) names.push_back(member.node);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "c", "d"}));
}

}  // namespace
}  // namespace hearth::coordinator

#include "coordinator/pipelines.h"

#include <gtest/gtest.h>

#include "tests/unit/coordinator/workers.h"
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
  EXPECT_EQ(pipeline->describe(1), "worker b (stage 1 of 3, layers 2 to 3)");
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

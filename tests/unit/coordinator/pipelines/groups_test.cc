// Groups of ranks: which workers, in which places, with which parts; and the messages to them.
#include "coordinator/pipelines/groups.h"

#include <gtest/gtest.h>

#include "coordinator/pipelines/pipelines.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

struct GroupsTest : ::testing::Test {
  CoordinatorOptions options = testing::swarm_options(1);
  testing::FakeClock clock;
  Registry registry{options, clock};
  Pipelines pipelines{options, clock, registry};
  std::uint64_t next_link = 1;

  GroupsTest() { options.ranks = 2; }

  Node& add(const std::string& name, double speed = 1e9, const std::string& host = "10.0.0.1") {
    control::v1::Register body = testing::worker(name);
    body.set_weight_bytes_per_second(speed);
    auto node = registry.add(LinkId(next_link), body);
    EXPECT_TRUE(node.ok());
    (*node)->status.rank_address = host + ":" + std::to_string(1000 + next_link++);
    return **node;
  }
  // Layers of 1000 bytes, and no KV.
  void measure_placement() {
    MeasuredPlacement& placement = options.placement.emplace();
    placement.model.layer_bytes.assign(4, 1000);
    options.stages = 0;
  }
  static void measured(Node& node, double layer_seconds, std::uint64_t memory) {
    placement::Node figures;
    figures.name = node.status.name;
    figures.layer = {layer_seconds, 2 * layer_seconds};
    figures.memory_bytes = memory;
    node.status.measured = figures;
  }
  static std::vector<std::string> names(const GroupedStage& stage) {
    std::vector<std::string> out;
    for (const Node* node : stage.nodes) out.push_back(node->status.name);
    return out;
  }
  Grouping choose() { return choose_groups(options, pipelines.ways(), registry.free_nodes()); }
};

using Names = std::vector<std::string>;
using Parts = std::vector<std::uint32_t>;

TEST_F(GroupsTest, WaitsForEnoughThatCanComputeInAGroup) {
  add("a");
  ASSERT_TRUE(registry.add(LinkId(99), testing::worker("gpu")).ok());  // without a rank's address
  const Grouping none = choose();
  EXPECT_TRUE(none.stages.empty());
  EXPECT_EQ(none.waiting, "each stage takes 2 workers that can compute in a group, and 1 are free");
  EXPECT_EQ(pipelines.form(), nullptr);
  EXPECT_EQ(pipelines.why_groups_wait(), none.waiting);
  add("b");
  EXPECT_EQ(names(choose().stages.at(0)), (Names{"a", "b"}));
}

TEST_F(GroupsTest, AWorkerThatOthersCannotDialGetsNoPlace) {
  options.relay = [](const Ticket&, const Ticket&, const std::string&, bool) {
    return ok_status();
  };
  const Pipelines routed{options, clock, registry};
  for (const char* name : {"a", "b"}) add(name).status.protocol = kProtocolVersion;
  EXPECT_EQ(choose_groups(options, routed.ways(), registry.free_nodes()).stages.size(), 1u);
  registry.find("b")->status.seen_host = "203.0.113.1";
  const Grouping none = choose_groups(options, routed.ways(), registry.free_nodes());
  EXPECT_TRUE(none.stages.empty());
  EXPECT_NE(none.waiting.find("1 more cannot be dialled by the others"), std::string::npos)
      << none.waiting;
}

TEST_F(GroupsTest, PartsFollowTheSpeeds) {
  add("a", 3e9);
  add("b", 1e9);
  EXPECT_EQ(choose().stages.at(0).parts, (Parts{192, 64}));
}

TEST_F(GroupsTest, WorkersOfOneMachineAreTogether) {
  options.stages = 2;
  add("a", 1e9, "10.0.0.1");
  add("b", 1e9, "10.0.0.2");
  add("c", 1e9, "10.0.0.1");
  add("d", 1e9, "10.0.0.2");
  const Grouping groups = choose();
  ASSERT_EQ(groups.stages.size(), 2u);
  EXPECT_EQ(names(groups.stages[0]), (Names{"a", "c"}));
  EXPECT_EQ(names(groups.stages[1]), (Names{"b", "d"}));
  EXPECT_EQ(groups.stages[0].layers, (LayerRange{0, 2}));
  EXPECT_EQ(groups.stages[1].layers, (LayerRange{2, 4}));
}

TEST_F(GroupsTest, WorkersOfOneOwnerAreTogether) {
  add("a").owner = "ann";
  add("b").owner = "bob";
  EXPECT_TRUE(choose().stages.empty());
  EXPECT_NE(choose().waiting.find("2 more have owners with too few"), std::string::npos);
  add("c").owner = "bob";
  EXPECT_EQ(names(choose().stages.at(0)), (Names{"b", "c"}));
  // Of places that would be mixed none is kept.
  Node& b = *registry.find("b");
  b.loaded = true;
  b.status.ranks = 2;
  b.status.layers = {0, options.layers};
  add("d").owner = "ann";
  EXPECT_EQ(names(choose().stages.at(0)), (Names{"a", "d"}));
  add("e").owner = "bob";
  add("f").owner = "bob";
  options.stages = 3;
  for (const GroupedStage& stage : choose().stages) {
    EXPECT_EQ(stage.nodes[0]->owner, stage.nodes[1]->owner);
  }
  EXPECT_EQ(choose().stages.size(), 3u);
}

TEST_F(GroupsTest, TakesTheFewestStagesWhoseMemoriesHoldThem) {
  measure_placement();
  for (const char* name : {"a", "b", "c", "d"}) measured(add(name), 0.001, 2500);
  EXPECT_EQ(choose().stages.size(), 1u);
  for (Node* node : registry.free_nodes()) measured(*node, 0.001, 1500);
  EXPECT_EQ(choose().stages.size(), 2u);
  for (Node* node : registry.free_nodes()) measured(*node, 0.001, 900);
  EXPECT_TRUE(choose().stages.empty());
  EXPECT_EQ(choose().waiting,
            "the memory of 4 free workers in groups of 2 does not hold the model");
}

TEST_F(GroupsTest, MemoryLimitsAPart) {
  measure_placement();
  measured(add("a"), 0.001, 1000);
  measured(add("b"), 0.004, 4000);
  EXPECT_EQ(choose().stages.at(0).parts, (Parts{64, 192}));
}

TEST_F(GroupsTest, AWorkerWithoutMeasurementsWaits) {
  measure_placement();
  measured(add("a"), 0.001, 9000);
  add("b");
  EXPECT_EQ(choose().waiting,
            "each stage takes 2 workers that can compute in a group, and 1 are free (1 more are "
            "being measured)");
}

TEST_F(GroupsTest, TheMessagesNameTheGroup) {
  add("a", 3e9);
  add("b", 1e9);
  Pipeline& pipeline = *pipelines.form();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto assign = pipelines.assign_message(pipeline, {0, rank}, "here:1");
    ASSERT_EQ(assign.group_size(), 2);
    EXPECT_EQ(assign.rank(), rank);
    EXPECT_EQ(assign.group(0).node(), "a");
    EXPECT_EQ(assign.group(0).address(), "10.0.0.1:1001");
    EXPECT_EQ(assign.group(0).part(), 192u);
    EXPECT_EQ(assign.group(1).node(), "b");
    EXPECT_EQ(assign.group(1).part(), 64u);
  }
  EXPECT_EQ(pipeline.describe({0, 1}), "worker b (rank 2 of 2 of stage 1 of 1, layers 0-3)");
  EXPECT_EQ(pipeline.nodes(), (Names{"a", "b"}));
}

TEST_F(GroupsTest, IsReadyWhenEveryRankIs) {
  add("a");
  add("b");
  Pipeline& pipeline = *pipelines.form();
  control::v1::StageReady ready;
  ready.set_kv_pages(5);
  ready.set_kv_page_tokens(32);
  ASSERT_TRUE(pipelines.ready(pipeline, {0, 0}, ready).ok());
  EXPECT_FALSE(pipeline.all_ready());
  ASSERT_TRUE(pipelines.ready(pipeline, {0, 1}, ready).ok());
  EXPECT_TRUE(pipeline.all_ready());
}

TEST_F(GroupsTest, SurvivorsKeepTheirPlaces) {
  options.stages = 2;
  for (const char* name : {"b", "c", "d", "e"}) add(name);
  Epoch epoch = pipelines.form()->epoch;
  for (const char* name : {"b", "c", "d", "e"}) registry.find(name)->loaded = true;
  pipelines.end(epoch, {});
  epoch = pipelines.form()->epoch;
  for (const char* name : {"b", "c", "d", "e"}) EXPECT_TRUE(registry.find(name)->loaded) << name;
  add("a");  // a spare, before all others by its name
  registry.lose(*registry.find("d"));
  pipelines.end(epoch, {"d"});
  const Grouping groups = choose();
  ASSERT_EQ(groups.stages.size(), 2u);
  EXPECT_EQ(names(groups.stages[0]), (Names{"b", "c"}));
  EXPECT_EQ(names(groups.stages[1]), (Names{"a", "e"}));
}

}  // namespace
}  // namespace hearth::coordinator

// A stage as one rank of a group: which links it has, and what it reports.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "node/pipeline/stage.h"
#include "proto/control.pb.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;

struct RankCompute final : StageCompute {
  void set_events(StageComputeEvents* given) override { events = given; }
  void load(Epoch, LayerRange, std::uint32_t, std::uint32_t) override { ++alone; }
  void load_rank(const Assignment& assignment) override { loaded.push_back(assignment); }
  void leave() override { ++left; }
  void compute(StepBatch) override {}
  void forget() override {}
  void distrust() override {}
  void check_weights() override {}
  void unload() override { ++unloads; }
  void finish_load() {
    events->on_loaded(loaded.back().epoch,
                      StageComputeEvents::Loaded{{4, 100, 64, false}, 8, 1000});
  }
  StageComputeEvents* events = nullptr;
  std::vector<Assignment> loaded;
  int alone = 0;
  int left = 0;
  int unloads = 0;
};

struct StageRanksTest : ::testing::Test {
  testing::FakeClock clock;
  SeededRandom random{1};
  testing::FakeTransport control;
  testing::FakeTransport data;
  RankCompute compute;
  std::unique_ptr<Stage> stage;
  LinkId session;

  void start(const std::string& rank_address) {
    StageOptions options;
    options.node = "w1";
    options.control_address = "home:1";
    options.layers = 6;
    options.canonical_version = 1;
    if (!rank_address.empty()) options.rank_address = [rank_address] { return rank_address; };
    stage = std::make_unique<Stage>(options, clock, random, control, data, compute);
    session = control.open("home:1");
    tell([](auto& m) {
      m.mutable_registered()->set_heartbeat_milliseconds(250);
      m.mutable_registered()->set_groups(true);
    });
  }
  void tell(const std::function<void(CoordinatorMessage&)>& fill) {
    CoordinatorMessage message;
    fill(message);
    Bytes payload(message.ByteSizeLong());
    message.SerializeToArray(payload.data(), static_cast<int>(payload.size()));
    control.receive(session, FrameType::kControl, std::move(payload));
  }
  void assign(std::uint64_t epoch, std::uint32_t rank) {
    tell([&](auto& message) {
      auto& a = *message.mutable_assign();
      a.set_epoch(epoch);
      a.set_stages(1);
      a.mutable_layers()->set_end(6);
      a.set_coordinator_address("home:data");
      a.set_batch_rows(8);
      a.set_batches_in_flight(2);
      a.set_rank(rank);
      for (const char* node : {"w0", "w1"}) {
        auto& one = *a.add_group();
        one.set_node(node);
        one.set_address(std::string(node) + ":7");
        one.set_part(1);
      }
    });
  }
  WorkerMessage last() {
    WorkerMessage message;
    const Bytes& payload = control.sent[session].back().payload;
    message.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
    return message;
  }
};

TEST_F(StageRanksTest, SaysWhereItsRankIsReachedOnceItIsAsked) {
  start("w1:7");
  EXPECT_EQ(last().heartbeat().rank_address(), "w1:7");
}

TEST_F(StageRanksTest, ARankThatFollowsIsReadyWithoutLinks) {
  start("w1:7");
  assign(4, 1);
  ASSERT_EQ(compute.loaded.size(), 1u);
  EXPECT_EQ(compute.loaded[0].rank, 1u);
  EXPECT_EQ(compute.loaded[0].group.size(), 2u);
  compute.finish_load();
  EXPECT_TRUE(last().has_stage_ready());
  EXPECT_EQ(data.dialled.size(), 0u) << "rank 0 alone has the links of the stage";
  StepBatch batch;
  batch.epoch = Epoch(4);
  batch.rows.resize(3);
  for (BatchRow& row : batch.rows) row.sequence = SequenceId(1);
  compute.events->on_followed(batch, {}, std::chrono::milliseconds(5));
  tell([](auto& m) { m.mutable_unassign()->set_epoch(4); });
  EXPECT_EQ(compute.left, 1);
  EXPECT_EQ(compute.alone, 0);
}

TEST_F(StageRanksTest, ALostGroupIsReportedWithItsCulprit) {
  start("w1:7");
  assign(4, 1);
  compute.finish_load();
  compute.events->on_group_lost(Epoch(3), "an older one", "w0");
  EXPECT_TRUE(last().has_stage_ready());
  compute.events->on_group_lost(Epoch(4), "rank 0 is lost", "w0");
  ASSERT_TRUE(last().has_stage_failed());
  EXPECT_EQ(last().stage_failed().peer(), "w0");
  EXPECT_EQ(last().stage_failed().error(), "rank 0 is lost");
  EXPECT_EQ(compute.left, 1);
}

TEST_F(StageRanksTest, AWorkerWithoutARanksAddressRefusesAGroup) {
  start("");
  assign(4, 0);
  ASSERT_TRUE(last().has_stage_failed());
  EXPECT_NE(last().stage_failed().error().find("computes no stage in a group"), std::string::npos);
  EXPECT_TRUE(compute.loaded.empty());
}

}  // namespace
}  // namespace hearth::node

// Machines that their owners pause and drain, against the coordinator.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/coordinator/machine/swarm.h"

namespace hearth::coordinator {
namespace {

void own(Swarm& swarm, const std::string& name, std::optional<Away> away) {
  WorkerMessage message;
  message.mutable_heartbeat();
  if (away) write_away(*away, *message.mutable_heartbeat()->mutable_away());
  swarm.say(swarm.sessions[name], message);
}

const Away kPause{false, 1'800'000'000, "a game runs"};
const Away kDrain{true, 0, "hearth drain"};

TEST(CoordinatorOwners, APausedNodesSequencesGoOnWithASpareAndNobodyIsToBlame) {
  Swarm swarm(2);
  for (const char* name : {"a", "b", "c"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 8);
  swarm.compute_all(always);
  own(swarm, "a", kPause);
  EXPECT_EQ(swarm.told(swarm.sessions["a"]).back().unassign().epoch(), 1u);
  EXPECT_EQ(status_of(swarm, "a").state, "paused");
  EXPECT_EQ(status_of(swarm, "a").away, kPause);
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 1u);
  EXPECT_EQ(swarm.machine->status().pipelines[0].nodes, (std::vector<std::string>{"c", "b"}));
  // What its neighbour says of the lost link comes late.
  WorkerMessage late;
  late.mutable_stage_failed()->set_epoch(1);
  late.mutable_stage_failed()->set_peer("a");
  swarm.say(swarm.sessions["b"], late);
  swarm.complete_all(8);
  swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 2u);
  EXPECT_FALSE(owner->over);
  // Without rest and without strikes it is chosen as soon as it is back.
  swarm.join("d");
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u) << "a paused node was chosen";
  own(swarm, "a", std::nullopt);
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 2u);
  const auto nodes = swarm.machine->status().pipelines.back().nodes;
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), "a"), 1);
  EXPECT_EQ(swarm.machine->status().finished_error_total, 0u);
}

TEST(CoordinatorOwners, PausesAreNotWhatBringsASequenceDown) {
  Swarm swarm(1);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 8);
  for (int i = 0; i < 20; ++i) {
    const std::string name = swarm.machine->status().pipelines.front().nodes.front();
    own(swarm, name, kPause);
    swarm.complete_all(8);
    own(swarm, name, std::nullopt);
    swarm.complete_all(8);
    ASSERT_FALSE(owner->over) << "after " << i + 1 << ": " << owner->message;
  }
  for (int i = 0; i < 9; ++i) swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 8u);
}

TEST(CoordinatorOwners, WhereNobodyTakesOverTheErrorNamesWhoIsPaused) {
  Swarm swarm(2);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 8);
  own(swarm, "a", kPause);
  EXPECT_TRUE(swarm.machine->status().pipelines.empty()) << "the owner waits for no sequence";
  EXPECT_FALSE(swarm.machine->status().ready);
  EXPECT_NE(
      swarm.machine->status().missing.find("1 of 2 workers are registered; worker a is paused"),
      std::string::npos)
      << swarm.machine->status().missing;
  own(swarm, "a", Away{false, 0, kAwayByAdmin});
  EXPECT_NE(swarm.machine->status().missing.find("worker a is paused by an admin of the cluster"),
            std::string::npos)
      << swarm.machine->status().missing;
  ASSERT_EQ(swarm.machine->status().uncovered.size(), 1u);
  EXPECT_EQ(swarm.submit(8, 8)->code, ErrorCode::kUnavailable) << "none will come by itself";
  for (int i = 0; i < 8; ++i) {
    swarm.clock.advance(milliseconds(250));
    own(swarm, "a", kPause);
    swarm.beat("b");
    swarm.machine->on_timer();
  }
  EXPECT_EQ(owner->code, ErrorCode::kUnavailable);
  EXPECT_NE(owner->message.find("worker a is paused"), std::string::npos) << owner->message;
  own(swarm, "a", std::nullopt);
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u);
}

TEST(CoordinatorOwners, ADrainedPipelineEndsWhatItRunsWhereNobodyTakesOver) {
  Swarm swarm(2);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 2);
  own(swarm, "a", kDrain);
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u);
  EXPECT_FALSE(swarm.machine->status().ready) << "it takes nothing new";
  EXPECT_EQ(swarm.submit(8, 2)->code, ErrorCode::kUnavailable);
  for (int i = 0; i < 3; ++i) swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 2u);
  swarm.machine->on_timer();
  EXPECT_TRUE(swarm.machine->status().pipelines.empty());
  EXPECT_EQ(swarm.told(swarm.sessions["a"]).back().unassign().epoch(), 1u);
  EXPECT_EQ(status_of(swarm, "a").state, "paused");
}

TEST(CoordinatorOwners, ADrainedPipelineHandsOverToASpareAtOnce) {
  Swarm swarm(2);
  for (const char* name : {"a", "b", "c"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 8);
  swarm.compute_all(always);
  own(swarm, "b", kDrain);
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 1u);
  EXPECT_EQ(swarm.machine->status().pipelines[0].epoch, Epoch(2));
  swarm.complete_all(8);
  for (int i = 0; i < 8; ++i) swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 8u);
  EXPECT_FALSE(owner->failed);
}

TEST(CoordinatorOwners, ADrainedPipelineHandsOverToAnotherOnlyWhereThereIsRoom) {
  Swarm swarm(1);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(4);
  std::vector<std::shared_ptr<Owner>> owners;
  for (int i = 0; i < 3; ++i) owners.push_back(swarm.submit(8, 8));  // 2 pages each
  const auto pipelines = swarm.machine->status().pipelines;
  const std::string full = pipelines[pipelines[0].running == 2 ? 0 : 1].nodes[0];
  own(swarm, full, kDrain);
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 2u) << "the other has room for one";
  EXPECT_EQ(swarm.machine->status().resumed_total, 0u);
  const auto waiting = swarm.submit(8, 8);
  EXPECT_TRUE(waiting->admitted) << "the other takes what comes";
  swarm.machine->cancel(SequenceId(waiting->id));
  swarm.machine->cancel(SequenceId(owners[0]->id));
  swarm.compute_all(always);
  swarm.compute_all(always);
  swarm.machine->on_timer();
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u);
  for (int i = 0; i < 12; ++i) swarm.compute_all(always);
  EXPECT_EQ(swarm.machine->status().finished_error_total, 0u);
  EXPECT_EQ(owners[1]->tokens + owners[2]->tokens, 16u);
}

TEST(CoordinatorOwners, APausedWorkerThatRegistersIsNotChosen) {
  Swarm swarm(1);
  WorkerMessage message;
  *message.mutable_register_() = testing::worker("a");
  write_away(kPause, *message.mutable_register_()->mutable_away());
  swarm.sessions["a"] = swarm.control.incoming();
  swarm.say(swarm.sessions["a"], message);
  EXPECT_EQ(status_of(swarm, "a").state, "paused");
  EXPECT_TRUE(swarm.machine->status().pipelines.empty());
  own(swarm, "a", std::nullopt);
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u);
}

}  // namespace
}  // namespace hearth::coordinator

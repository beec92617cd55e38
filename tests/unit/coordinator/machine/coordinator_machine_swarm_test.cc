// Whole swarms against the coordinator: several pipelines, and workers that come and go.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "tests/unit/coordinator/machine/swarm.h"

namespace hearth::coordinator {
namespace {

TEST(CoordinatorSwarm, OfTwoPipelinesOneTakesOverWhatTheOtherLoses) {
  Swarm swarm(2);
  for (const char* name : {"a", "b", "c", "d"}) swarm.join(name);
  swarm.complete_all(8);
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 2u);
  const auto one = swarm.submit(8, 8);
  const auto two = swarm.submit(8, 8);
  for (const PipelineStatus& pipeline : swarm.machine->status().pipelines) {
    EXPECT_EQ(pipeline.running, 1u);
    EXPECT_EQ(pipeline.kv_pages_reserved, 2u);
  }
  swarm.control.lose(swarm.sessions["a"]);
  EXPECT_FALSE(one->over || two->over);
  EXPECT_TRUE(swarm.machine->status().ready) << "the other one serves";
  EXPECT_EQ(swarm.machine->status().pipelines[0].running, 2u);
  EXPECT_EQ(swarm.machine->status().resumed_total, 1u);
  swarm.compute_all(always);
  EXPECT_EQ(one->tokens, 1u);
  EXPECT_EQ(two->tokens, 1u);
  swarm.join("a");
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 2u);
  EXPECT_EQ(swarm.machine->status().pipelines.back().epoch, Epoch(3));
}

TEST(CoordinatorSwarm, ASequenceGoesToThePipelineWhoseTokensCameTheQuickest) {
  Swarm swarm(1);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(8);
  const auto one = swarm.submit(8, 4);
  const auto two = swarm.submit(8, 4);
  const auto running = [&](std::size_t pipeline) {
    return swarm.machine->status().pipelines[pipeline].running;
  };
  ASSERT_EQ(running(0), 1u);
  ASSERT_EQ(running(1), 1u);
  for (int i = 1; i <= 25; ++i) {
    swarm.clock.advance(milliseconds(10));
    swarm.compute(swarm.rings[2], Epoch(2), always);
    if (i % 5 == 0) swarm.compute(swarm.rings[1], Epoch(1), always);
  }
  ASSERT_TRUE(one->over && two->over);
  ASSERT_EQ(running(0) + running(1), 0u);
  const auto three = swarm.submit(8, 4);
  EXPECT_EQ(running(1), 1u) << "10 ms a token; by room alone the first one has it";
  const auto four = swarm.submit(8, 4);
  EXPECT_EQ(running(1), 2u) << "20 ms for each of two";
}

TEST(CoordinatorSwarm, WhatAnEarlierProcessBeganGoesOnBehindItsTokens) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(8);
  const auto owner = swarm.submit(4, 5, {7, 8, 9});
  EXPECT_EQ(swarm.machine->status().resumed_total, 1u);
  swarm.compute_all(always);
  swarm.compute_all(always);
  EXPECT_TRUE(owner->over && !owner->failed);
  EXPECT_EQ(owner->tokens, 2u) << "three were there";
  for (const std::vector<TokenId>& wrong :
       {std::vector<TokenId>(5, 1), std::vector<TokenId>{-1}, std::vector<TokenId>{1'000'000}}) {
    const auto refused = swarm.submit(4, 5, wrong);
    EXPECT_EQ(refused->id, 0u);
    EXPECT_EQ(refused->code, ErrorCode::kInvalidInput);
  }
}

TEST(CoordinatorSwarm, NobodyIsAssignedToAPipelineThatEndedWhileItFormed) {
  Swarm swarm(2);
  swarm.join("a");
  swarm.control.full.insert(swarm.sessions["a"]);  // its Assign cannot be sent: it is lost
  swarm.join("b");
  swarm.control.full.clear();
  std::uint64_t ended = 0;
  for (const CoordinatorMessage& message : swarm.told(swarm.sessions["b"])) {
    if (message.has_unassign()) ended = std::max(ended, message.unassign().epoch());
    if (message.has_assign()) {
      EXPECT_GT(message.assign().epoch(), ended);
    }
  }
  EXPECT_TRUE(swarm.machine->status().pipelines.empty());
  swarm.join("c");
  EXPECT_EQ(swarm.told(swarm.sessions["b"]).back().assign().epoch(), 2u);
}

// cancel() ends a sequence without further events, even while others of its pipeline are told.
TEST(CoordinatorSwarm, ASequenceCancelledWhileItsPipelineEndsHearsNothing) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(16);
  std::vector<std::shared_ptr<Owner>> owners;
  for (int i = 0; i < 3; ++i) owners.push_back(swarm.submit(4, 4));
  owners[0]->then = [&](Owner&) {
    swarm.machine->cancel(SequenceId(owners[2]->id));
    owners[2]->over = true;
  };
  swarm.control.lose(swarm.sessions["a"]);
  EXPECT_FALSE(owners[0]->over);
  swarm.clock.advance(seconds(22));
  swarm.machine->on_timer();
  EXPECT_TRUE(owners[0]->failed);
  EXPECT_TRUE(owners[1]->failed);
  EXPECT_FALSE(owners[2]->failed);
  EXPECT_EQ(swarm.machine->status().finished_error_total, 2u);
  EXPECT_EQ(swarm.machine->status().cancelled_total, 1u);
}

TEST(CoordinatorSwarm, TheSameWhenWaitingSequencesExpire) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(1);
  const auto running = swarm.submit(4, 4);
  std::vector<std::shared_ptr<Owner>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(swarm.submit(4, 4));
  waiting[0]->then = [&](Owner&) {
    swarm.machine->cancel(SequenceId(waiting[1]->id));
    waiting[1]->over = true;
    EXPECT_EQ(swarm.submit(1, 1)->code, ErrorCode::kUnavailable);
  };
  swarm.control.lose(swarm.sessions["a"]);
  swarm.clock.advance(seconds(21));
  swarm.machine->on_timer();
  EXPECT_TRUE(waiting[0]->failed && waiting[2]->failed);
  EXPECT_FALSE(waiting[1]->failed);
  EXPECT_EQ(swarm.machine->status().waiting, 0u);
}

TEST(CoordinatorSwarm, OwnersMayCancelThemselvesAndSubmitFromTheirEvents) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(2);
  std::vector<std::shared_ptr<Owner>> more;
  const auto one = swarm.submit(4, 8);
  one->then = [&](Owner& self) {
    if (self.tokens != 2) return;
    swarm.machine->cancel(SequenceId(self.id));
    self.over = true;
    more.push_back(swarm.submit(4, 1));
  };
  for (int i = 0; i < 6; ++i) swarm.compute_all(always);
  EXPECT_EQ(one->tokens, 2u);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0]->tokens, 1u);
  const SwarmStatus status = swarm.machine->status();
  EXPECT_EQ(status.running, 0u);
  EXPECT_EQ(status.pipelines[0].kv_pages_reserved, 0u);
  EXPECT_EQ(status.cancelled_total, 1u);
  EXPECT_EQ(status.finished_length_total, 1u);
}

TEST(CoordinatorSwarm, ASequenceThatNoPipelineLeftCanHoldEndsByItsSize) {
  Swarm swarm(1);
  swarm.join("big");
  swarm.join("small");
  const auto pipelines = swarm.machine->status().pipelines;
  ASSERT_EQ(pipelines.size(), 2u);
  swarm.complete(pipelines[0], 5);
  swarm.complete(pipelines[1], 2);
  const auto fills = swarm.submit(20, 20);
  const auto large = swarm.submit(20, 20);  // waits for the big one
  const auto small = swarm.submit(4, 4);    // waits behind it
  EXPECT_TRUE(fills->admitted);
  EXPECT_FALSE(large->admitted || small->admitted);
  swarm.control.lose(swarm.sessions["big"]);
  EXPECT_TRUE(large->failed);
  EXPECT_EQ(large->code, ErrorCode::kNoCapacity);
  EXPECT_NE(large->message.find("40"), std::string::npos) << large->message;
  EXPECT_TRUE(small->admitted);
  EXPECT_FALSE(fills->over) << "a larger pipeline may come back";
  swarm.clock.advance(seconds(22));
  swarm.beat("small");
  swarm.machine->on_timer();
  EXPECT_TRUE(fills->failed);
  EXPECT_FALSE(small->over);
}

// A numeric failure is the sequence's own; its pipeline goes on.
TEST(CoordinatorSwarm, AnErrorTokenEndsItsSequenceOnly) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(4);
  const auto bad = swarm.submit(2, 4);
  const auto good = swarm.submit(2, 4);
  Ring& ring = swarm.rings[1];
  const auto token = [](std::uint64_t id, FinishReason finish) {
    return SampledToken{SequenceId(id), 2, 5, finish, ErrorCode::kNumeric, 0.0F, {}};
  };
  swarm.data.receive(
      ring.last, FrameType::kTokens,
      encode(StepTokens{Epoch(1),
                        StepId(0),
                        {token(1, FinishReason::kError), token(2, FinishReason::kNone)},
                        {}}));
  EXPECT_TRUE(bad->failed);
  EXPECT_EQ(bad->code, ErrorCode::kNumeric);
  EXPECT_NE(bad->message.find("position 2"), std::string::npos);
  EXPECT_EQ(good->tokens, 1u);
  EXPECT_EQ(swarm.machine->status().running, 2u) << "its KV is not free yet";
  EXPECT_TRUE(swarm.machine->status().ready);
}

struct Breach {
  const char* name;
  std::vector<StepTokens> steps;
  const char* says;
};

TEST(CoordinatorSwarm, EveryBreachOfTheLastStageEndsThePipelineByName) {
  const auto token = [](std::uint64_t id, Position position, FinishReason finish) {
    return SampledToken{SequenceId(id), position, 5, finish, ErrorCode::kNumeric, 0.0F, {}};
  };
  const auto none = FinishReason::kNone;
  const Epoch one(1);
  const std::vector<Breach> breaches = {
      {"future epoch", {{Epoch(2), StepId(0), {}, {}}}, "epoch 2"},
      {"a step left out",
       {{one, StepId(0), {}, {}}, {one, StepId(2), {}, {}}},
       "step 2 came after that to step 0"},
      {"unknown sequence", {{one, StepId(0), {token(9, 2, none)}, {}}}, "sequence 9"},
      {"skipped position", {{one, StepId(0), {token(1, 3, none)}, {}}}, "the next is 2"},
      {"the prompt again", {{one, StepId(0), {token(1, 1, none)}, {}}}, "position 1"},
      {"named twice",
       {{one, StepId(0), {token(1, 2, none), token(1, 2, none)}, {}}},
       "sequence 1 go from position 2 to 2"},
      {"two ends",
       {{one, StepId(0), {token(1, 2, FinishReason::kStop)}, {}},
        {one, StepId(1), {token(1, 3, none)}, {}}},
       "after its end"},
      {"too many",
       {{one, StepId(0), {token(1, 2, none)}, {}}, {one, StepId(1), {token(1, 3, none)}, {}}},
       "goes on"},
      {"released alive", {{one, StepId(0), {}, {SequenceId(1)}}}, "before it ended"},
      {"released unknown", {{one, StepId(0), {}, {SequenceId(7)}}}, "sequence 7"},
  };
  for (const Breach& breach : breaches) {
    Swarm swarm(1);
    swarm.join("a");
    swarm.complete_all(4);
    const auto owner = swarm.submit(2, 2);
    for (const StepTokens& step : breach.steps) {
      swarm.data.receive(swarm.rings[1].last, FrameType::kTokens, encode(step));
    }
    EXPECT_FALSE(swarm.machine->status().ready) << breach.name;
    EXPECT_EQ(swarm.machine->status().running, 0u) << breach.name;
    EXPECT_FALSE(owner->failed) << breach.name << ": another pipeline may take it";
    const auto heard = swarm.told(swarm.sessions["a"]);
    EXPECT_TRUE(heard.back().has_unassign()) << breach.name;
    swarm.control.lose(swarm.sessions["a"]);
    swarm.clock.advance(seconds(22));
    swarm.machine->on_timer();
    EXPECT_TRUE(owner->over) << breach.name;
    if (owner->failed) {
      EXPECT_NE(owner->message.find("worker a (stage 1 of 1"), std::string::npos) << breach.name;
      EXPECT_NE(owner->message.find(breach.says), std::string::npos) << owner->message;
    }
  }
}

// Random days of a swarm. `check` holds after every event.
class Chaos {
 public:
  explicit Chaos(std::uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_.next() % 12) {
      case 0: return toggle_worker();
      case 1: return swarm.complete_all(2 + static_cast<std::uint32_t>(random_.next() % 6));
      case 2:
      case 3:
      case 4: return submit();
      case 5: return cancel();
      case 6: return pass_time();
      case 7: return choke();
      default: return swarm.compute_all([this] { return random_.next() % 4 != 0; });
    }
  }

  void check() {
    const SwarmStatus status = swarm.machine->status();
    std::set<std::string> members;
    std::uint32_t running = 0;
    for (const PipelineStatus& pipeline : status.pipelines) {
      ASSERT_LE(pipeline.kv_pages_reserved, pipeline.kv_pages);
      running += pipeline.running;
      newest_ = std::max(newest_, pipeline.epoch.value);
      for (const std::string& node : pipeline.nodes) {
        ASSERT_TRUE(members.insert(node).second) << node << " is in two pipelines";
      }
    }
    ASSERT_EQ(status.running, running);
    ASSERT_LE(status.nodes.size(), kNames);
    for (std::size_t i = 1; i < swarm.admitted.size(); ++i) {
      ASSERT_TRUE(swarm.admitted[i - 1]->id < swarm.admitted[i]->id || swarm.admitted[i]->id == 0)
          << "overtaken";
    }
    ASSERT_EQ(status.admitted_total, swarm.admitted.size());
    for (const NodeStatus& node : status.nodes) {
      ASSERT_EQ(members.contains(node.name), node.state == "loading" || node.state == "serving")
          << node.name << " is " << node.state;
    }
  }

  // With workers that stay, everything ends and every page comes back.
  void settle() {
    for (std::size_t i = 0; i < kNames; ++i) {
      if (!alive(name(i))) swarm.join(name(i));
    }
    for (int i = 0; i < 400; ++i) {
      pass_time();
      swarm.complete_all(8);
      swarm.compute_all(always);
    }
    const SwarmStatus status = swarm.machine->status();
    EXPECT_EQ(status.running, 0u);
    EXPECT_EQ(status.waiting, 0u);
    for (const PipelineStatus& pipeline : status.pipelines) {
      EXPECT_EQ(pipeline.kv_pages_reserved, 0u);
    }
    std::uint64_t accepted = 0;
    for (const auto& owner : owners_) {
      EXPECT_TRUE(owner->over) << "sequence " << owner->id << " was forgotten";
      accepted += owner->id != 0 ? 1 : 0;
    }
    EXPECT_EQ(accepted,
              status.finished_length_total + status.finished_error_total + status.cancelled_total);
    for (const auto& [link, frames] : swarm.control.sent) check_epochs(link);
  }

  Swarm swarm{2};
  std::uint64_t newest_ = 0;

 private:
  static constexpr std::size_t kNames = 7;

  static std::string name(std::size_t i) { return "w" + std::to_string(i); }
  bool alive(const std::string& node) {
    for (const NodeStatus& status : swarm.machine->status().nodes) {
      if (status.name == node) return status.state != "lost";
    }
    return false;
  }
  void toggle_worker() {
    const std::string node = name(random_.next() % kNames);
    if (!alive(node) || random_.next() % 6 == 0) return swarm.join(node);
    if (random_.next() % 3 == 0) swarm.control.lose(swarm.sessions[node]);
  }
  void submit() {
    const auto owner = swarm.submit(1 + static_cast<std::uint32_t>(random_.next() % 12),
                                    1 + static_cast<std::uint32_t>(random_.next() % 12));
    if (owner->id == 0) owner->over = true;
    owners_.push_back(owner);
  }
  void cancel() {
    if (owners_.empty()) return;
    const auto& owner = owners_[random_.next() % owners_.size()];
    if (owner->over) return;
    swarm.machine->cancel(SequenceId(owner->id));
    owner->over = true;
  }
  void pass_time() {
    swarm.clock.advance(milliseconds(300));
    for (const auto& [node, link] : swarm.sessions) {
      if (alive(node)) swarm.beat(node);
    }
    swarm.machine->on_timer();
  }
  // One session takes nothing for a moment.
  void choke() {
    const std::string node = name(random_.next() % kNames);
    swarm.control.full.insert(swarm.sessions[node]);
    toggle_worker();
    swarm.control.full.clear();
  }
  // What one worker hears of epochs only rises, and none comes back after its end.
  void check_epochs(LinkId link) {
    std::uint64_t assigned = 0;
    std::uint64_t ended = 0;
    for (const CoordinatorMessage& message : swarm.told(link)) {
      if (message.has_assign()) {
        EXPECT_GT(message.assign().epoch(), assigned);
        EXPECT_GT(message.assign().epoch(), ended);
        assigned = message.assign().epoch();
      }
      if (message.has_unassign()) ended = std::max(ended, message.unassign().epoch());
    }
  }

  SeededRandom random_;
  std::vector<std::shared_ptr<Owner>> owners_;
};

TEST(CoordinatorSwarm, RandomDaysKeepEveryInvariant) {
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t epochs = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Chaos chaos(seed);
    for (int i = 0; i < 500; ++i) {
      chaos.step();
      chaos.check();
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    chaos.settle();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << ", at the end";
    finished += chaos.swarm.machine->status().finished_length_total;
    failed += chaos.swarm.machine->status().finished_error_total;
    epochs += chaos.newest_;
  }
  EXPECT_GT(finished, 200u);
  EXPECT_GT(failed, 20u);
  EXPECT_GT(epochs, 100u);
}

}  // namespace
}  // namespace hearth::coordinator

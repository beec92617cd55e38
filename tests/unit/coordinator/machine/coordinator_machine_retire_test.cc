#include <gtest/gtest.h>

#include "tests/unit/coordinator/machine/swarm.h"

namespace hearth::coordinator {
namespace {

struct RetireTest : ::testing::Test {
  void serve() {
    for (const char* name : {"a", "b"}) swarm.join(name);
    swarm.complete_all(100);
    ASSERT_TRUE(swarm.machine->status().ready);
  }
  Swarm swarm{2};
};

TEST_F(RetireTest, WindsDownWhenNothingRunsAndNothingElseIsWanted) {
  serve();
  const auto owner = swarm.submit(3, 2);
  EXPECT_FALSE(swarm.machine->wind_down(true)) << "a sequence runs";
  while (!owner->over) swarm.compute_all(always);
  swarm.compute_all(always);
  EXPECT_TRUE(swarm.machine->wind_down(true));
  EXPECT_FALSE(swarm.machine->wind_down(false));
  const auto more = swarm.submit(3, 2);
  EXPECT_FALSE(swarm.machine->wind_down(true)) << "something came since";
  while (!more->over) swarm.compute_all(always);
  EXPECT_FALSE(more->failed);
}

TEST_F(RetireTest, TheNextCoordinatorTakesTheTransportsAndGivesNoNumberTwice) {
  serve();
  const auto owner = swarm.submit(3, 1);
  while (!owner->over) swarm.compute_all(always);
  swarm.compute_all(always);
  const Epoch before = swarm.machine->status().pipelines.front().epoch;
  swarm.machine->retire();
  EXPECT_TRUE(swarm.machine->status().pipelines.empty());
  for (const auto& [name, link] : swarm.sessions) {
    EXPECT_TRUE(swarm.control.closed.contains(link)) << name;
    EXPECT_EQ(status_of(swarm, name).state, "lost");
  }
  const Numbers next = *swarm.options.numbers;
  EXPECT_GT(next.epoch, before.value);
  EXPECT_GT(next.sequence, owner->id);

  const auto gone = swarm.sessions;
  swarm.machine.reset();
  swarm.machine =
      Coordinator::start(swarm.options, swarm.clock, swarm.random, swarm.control, swarm.data);
  for (const auto& [name, link] : gone) {
    swarm.beat(name);  // of the session before
    swarm.control.lose(link);
  }
  EXPECT_TRUE(swarm.machine->status().nodes.empty());
  serve();
  EXPECT_GE(swarm.machine->status().pipelines.front().epoch.value, next.epoch);
  const auto later = swarm.submit(3, 1);
  EXPECT_GE(later->id, next.sequence);
  while (!later->over) swarm.compute_all(always);
  EXPECT_FALSE(later->failed);
}

TEST_F(RetireTest, ARetiredCoordinatorFormsNoPipeline) {
  serve();
  swarm.machine->retire();
  swarm.clock.advance(seconds(30));
  swarm.machine->on_timer();
  EXPECT_TRUE(swarm.machine->status().pipelines.empty());
}

TEST(OtherModel, AWorkerOfOneOfTheServersOtherModelsMayComeAgain) {
  Swarm swarm(2);
  swarm.options.other_models = {"feed"};
  swarm.machine =
      Coordinator::start(swarm.options, swarm.clock, swarm.random, swarm.control, swarm.data);
  const auto refused = [&swarm](const std::string& fingerprint) {
    WorkerMessage message;
    *message.mutable_register_() = testing::worker("x");
    message.mutable_register_()->set_model_fingerprint(fingerprint);
    const LinkId link = swarm.control.incoming();
    swarm.say(link, message);
    return swarm.told(link).front().refused();
  };
  EXPECT_FALSE(swarm.machine->status().has_other_workers);
  EXPECT_TRUE(refused("feed").other_model());
  EXPECT_TRUE(swarm.machine->status().has_other_workers);
  EXPECT_TRUE(refused("feed").may_pass()) << "for programs that do not know the other field";
  EXPECT_FALSE(refused("beef").other_model());
  EXPECT_FALSE(refused("beef").may_pass());
  swarm.clock.advance(seconds(61));
  EXPECT_FALSE(swarm.machine->status().has_other_workers);
}

}  // namespace
}  // namespace hearth::coordinator

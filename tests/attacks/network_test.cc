// What a network may do to a swarm (CATALOGUE.md, N), above the links: those have their own tests.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/attacks/ledger_world.h"
#include "tests/attacks/real_swarm.h"

namespace hearth::attacks {
namespace {

struct NetworkAttack : ::testing::Test {
  RealSwarm swarm;
};

TEST_F(NetworkAttack, N02_FramesOfEarlierAreNothingNew) {
  RealPipeline& pipeline = *swarm.pipelines[0];
  const std::vector<TokenId> prompt = {40, 50, 60};
  SamplingParams sampling;
  sampling.max_tokens = 6;
  const SequenceOpen open = swarm.open(prompt, sampling, {});
  node::Batcher& batcher = pipeline.batcher();
  ASSERT_TRUE(batcher.submit({pipeline.epoch, open, prompt}));
  const SubmitMessage again{pipeline.epoch, open, prompt};
  std::vector<StepBatch> sent;
  std::vector<StepTokens> said;
  while (auto batch = batcher.next()) {
    sent.push_back(*batch);
    StepTokens tokens{batch->epoch, batch->step, {}, {}};
    for (RealStage& stage : pipeline.stages) {
      node::StepResult result;
      ASSERT_TRUE(stage.engine->step(*batch, result));
      tokens.tokens = result.tokens;
      tokens.released = result.released;
    }
    ASSERT_TRUE(batcher.on_tokens(tokens));
    said.push_back(tokens);
  }
  for (const StepTokens& one : said) EXPECT_FALSE(batcher.on_tokens(one)) << "answers no step";
  EXPECT_FALSE(batcher.submit(again)) << "a sequence begins once";
  for (std::size_t i = 1; i < sent.size(); ++i) {
    if (sent[i].rows.empty()) continue;
    node::StepResult result;
    EXPECT_FALSE(pipeline.stages[0].engine->step(sent[i], result)) << "its sequence is over";
  }
}

TEST_F(NetworkAttack, N04_TwoHalvesGoOnAndTheirLogsContradict) {
  // Not defended: a checkpoint needs only the cluster's key, so a copy of the
  // coordinator that has it goes on too. That there are two, both checkpoints prove.
  LedgerWorld one;
  one.add_window(0, 0);
  LedgerWorld other = one;
  one.add_window(1, 0);
  one.add_window(0, 2);
  other.now += 5;
  other.add_window(0, 1);
  const ledger::Image here = written(one.cluster, one.log);
  const ledger::Image there = written(other.cluster, other.log);
  ledger::Books first;
  ledger::Books second;
  EXPECT_EQ(fault_of(here, {}, &first), "") << "the minority has not stopped";
  EXPECT_EQ(fault_of(there, {}, &second), "");
  EXPECT_NE(first.root(), second.root());
  EXPECT_NE(fault_of(here, checkpoint_of(there)), "");
  EXPECT_NE(fault_of(there, checkpoint_of(here)), "");
  // A worker that answers both halves shows it as well: two receipts of one place in its chain.
  EXPECT_FALSE(first.apply(other.log.back()).ok());
}

TEST_F(NetworkAttack, N05_LatenessIsNothingThatALedgerKnows) {
  swarm.ask(1);
  RealStage& stage = swarm.stage(0, 1);
  const Hash256 before = swarm.standing(stage).hash();
  bool is_late = false;
  stage.lie = [&](StepBatch& batch, const Bytes&) {
    if (batch.rows.empty() || std::exchange(is_late, true)) return;
    swarm.clock.advance(std::chrono::minutes(20));
  };
  swarm.ask(2);
  EXPECT_NE(swarm.standing(stage).hash(), before);
  EXPECT_EQ(swarm.standing(stage).audited_right(), 2) << "as good as in time";
  EXPECT_EQ(swarm.standing(stage).faults({}, swarm.clock.unix_seconds()), 0);
  // Later than anybody could be asked to audit, it has no receipt, and no blame.
  is_late = false;
  stage.lie = [&](StepBatch& batch, const Bytes&) {
    if (batch.rows.empty() || std::exchange(is_late, true)) return;
    swarm.clock.advance(std::chrono::hours(2));
  };
  const std::size_t receipts = swarm.receipts().size();
  swarm.ask(3);
  EXPECT_LT(swarm.receipts().size(), receipts + 3);
  EXPECT_EQ(swarm.standing(stage).faults({}, swarm.clock.unix_seconds()), 0);
  EXPECT_FALSE(swarm.standing(stage).is_tombstoned());
}

TEST_F(NetworkAttack, N06_OlderStateIsRefusedByWhoHasSeenNewer) {
  LedgerWorld world;
  for (std::uint32_t i = 0; i < 4; ++i) world.add_window(0, i);
  const auto part = [&world](std::size_t less) {
    return written(world.cluster,
                   {world.log.begin(), world.log.end() - static_cast<std::ptrdiff_t>(less)});
  };
  const ledger::Checkpoint seen = checkpoint_of(part(1));
  EXPECT_EQ(fault_of(part(0), seen), "");
  for (std::size_t less = 2; less < 5; ++less) EXPECT_NE(fault_of(part(less), seen), "");
  // Who has seen nothing newer cannot tell: a checkpoint has no time of its own.
  EXPECT_EQ(fault_of(part(3)), "");
  EXPECT_EQ(checkpoint_of(part(3)).cosignatures.size(), 0u);
}

}  // namespace
}  // namespace hearth::attacks

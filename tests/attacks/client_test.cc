// What a client may try (CATALOGUE.md, U).
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/kernels.h"
#include "proto/committed_sampling.h"
#include "tests/attacks/ledger_world.h"
#include "tests/attacks/real_swarm.h"

namespace hearth::attacks {
namespace {

struct ClientAttack : ::testing::Test {
  RealSwarm swarm;
};

TEST_F(ClientAttack, U01_DenyingAnAnswerGainsNothing) {
  // No node asks a client whether it has its tokens: a window is paid when its stages have signed.
  LedgerWorld world;
  const std::int64_t before = world.spendable(world.client);
  world.add_window(0, 0);
  EXPECT_LT(world.spendable(world.client), before);
  EXPECT_GT(world.of(world.upper).escrow(), 0);
  std::vector<Bytes> entries = world.log;
  ledger::Books reader;
  for (const Bytes& entry : entries) ASSERT_TRUE(reader.apply(entry));
  EXPECT_EQ(reader.hash(), world.books.hash()) << "no entry of its own is part of it";
}

TEST_F(ClientAttack, U02_WashTradingLosesTheFee) {
  // The client is its own worker: it pays itself for windows that it does compute.
  LedgerWorld world;
  const std::int64_t before = world.spendable(world.client);
  for (std::uint32_t i = 0; i < 400; ++i) {
    const std::uint64_t entry = world.add_window(0, i);
    if (i < 90) world.audit(entry, world.auditor, hash_of("boundary " + std::to_string(i)));
    world.now += 10;
  }
  world.now += 60 * kDay;
  world.add(ledger::VestEntry{world.upper.public_key()});
  EXPECT_EQ(world.of(world.upper).escrow(), 0);
  const std::int64_t gain = world.spendable(world.client) + world.spendable(world.upper) - before;
  const std::int64_t pay = world.spendable(world.upper);
  EXPECT_LT(gain, 0);
  EXPECT_EQ(gain, -400 * (896 / 10)) << "a tenth of what it paid itself, " << pay;
}

TEST_F(ClientAttack, U03_AnyTokensGiveTheSameBytesEverywhere) {
  // Every token of the vocabulary, and prompts of one token over and over: on every instruction set
  // of this machine the same rows, whose roots the receipts have.
  std::vector<TokenId> all;
  for (TokenId token = 0; token < 400; ++token) all.push_back(token);
  const std::vector<std::vector<TokenId>> prompts = {all, std::vector<TokenId>(300, 0),
                                                     std::vector<TokenId>(300, 399),
                                                     std::vector<TokenId>(300, 258)};
  std::vector<ledger::Receipt> expected;
  for (const kernels::Kernels* table : kernels::available_kernels()) {
    RealSwarm other(coordinator::AuditMode::kOff);
    for (std::uint32_t i = 0; i < 3; ++i) {
      other.stage(0, i).engine = load_engine(other.file, {2 * i, 2 * i + 2}, i, table);
    }
    for (const auto& prompt : prompts) other.ask(prompt, 8, 100.0F);
    std::vector<ledger::Receipt> said = other.receipts();
    ASSERT_EQ(said.size(), prompts.size() * 3);
    if (expected.empty()) expected = said;
    for (std::size_t i = 0; i < said.size(); ++i) {
      EXPECT_EQ(said[i].out_root, expected[i].out_root) << table->name;
      EXPECT_EQ(said[i].tokens, expected[i].tokens) << table->name;
    }
  }
}

TEST_F(ClientAttack, U04_NoPromptIsFoundInTheLogByTrying) {
  const std::vector<TokenId> prompt = {77};
  const RealSwarm::Answer answer = swarm.ask(prompt, 1);
  const auto guess = [](const Hash256& salt, TokenId token, std::uint64_t seed) {
    SamplingParams sampling;  // all that a client may say of it, as it was
    sampling.temperature = 0.8F;
    sampling.max_tokens = 1;
    sampling.seed = seed;
    const std::uint32_t fed = static_cast<std::uint32_t>(token);
    return ledger::commit_tokens(salt, 0, {&fed, 1}, encode_committed(sampling));
  };
  const std::vector<ledger::Receipt> receipts = swarm.receipts();
  ASSERT_EQ(receipts.size(), 3u);
  ASSERT_EQ(receipts[0].tokens, guess(answer.salt, 77, 1)) << "who has the salt finds it";
  std::vector<Hash256> salts = {Hash256(), receipts[0].program, receipts[0].out_root,
                                receipts[0].previous};
  for (const Bytes& entry : swarm.entries) salts.push_back(blake2b(entry));
  for (const Hash256& salt : salts) {
    EXPECT_NE(salt, answer.salt);
    for (TokenId token = 0; token < 400; ++token) {
      EXPECT_NE(receipts[0].tokens, guess(salt, token, 1));
    }
  }
  // Two requests of the same prompt have nothing in common that the log shows.
  swarm.ask(prompt, 1);
  const std::vector<ledger::Receipt> both = swarm.receipts();
  EXPECT_NE(both[0].tokens, both[3].tokens);
  EXPECT_NE(both[0].out_root, both[3].out_root);
}

TEST_F(ClientAttack, U05_AFloodLowersNoRateButCanOutlastMemory) {
  // The liar's window waits for its audit while others flood the desk with requests of their own.
  swarm.stage(0, 1).lie = [](StepBatch& batch, const Bytes&) {
    if (!batch.activations.empty()) batch.activations[2] ^= std::byte{1};
  };
  swarm.runs_audits = false;
  swarm.ask(1);
  ASSERT_EQ(swarm.runs.size(), 1u);
  swarm.audits.put_off(swarm.runs[0].order.request, "its queue is full");
  swarm.runs.clear();
  EXPECT_EQ(swarm.books.audits().selected, 3u)
      << "drawn at the rate of its worker, for every client";
  EXPECT_EQ(swarm.audits.status().waiting, 3u);
  for (std::size_t i = 0; i < coordinator::Auditor::kKeptCases; ++i) {
    coordinator::ReceiptRequest other;
    other.epoch = swarm.pipelines[0]->epoch;
    const Hash256 name = blake2b(as_bytes("flood " + std::to_string(i)));
    other.order.request =
        ledger::request_of(ledger::answer_name(swarm.clock.unix_seconds() + 1, name.bytes), 0);
    other.tokens = {1, 2, 3};
    swarm.audits.over(other);
  }
  EXPECT_EQ(swarm.audits.status().missed_total, 3u) << "the oldest gives way, and it is counted";
}

TEST_F(ClientAttack, U06_WhoGoesAwayGivesBackAndIsChargedForWhatWasDone) {
  RealPipeline& pipeline = *swarm.pipelines[0];
  const std::vector<TokenId> prompt = {40, 50, 60, 70};
  coordinator::ReceiptRequest request;
  request.epoch = pipeline.epoch;
  request.order.request = ledger::request_of(
      ledger::answer_name(swarm.clock.unix_seconds(), blake2b(as_bytes("greedy")).bytes), 0);
  request.order.salt = blake2b(as_bytes("salt"));
  request.prompt_tokens = 4;
  request.sampling.max_tokens = 500;
  const SequenceOpen open = swarm.open(prompt, request.sampling, request.order);
  swarm.desk.start(pipeline.epoch, request.order.request, 504);
  ASSERT_TRUE(pipeline.batcher().submit({pipeline.epoch, open, prompt}));
  std::vector<SampledToken> sampled;
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(pipeline.step(sampled).value());
  EXPECT_GT(swarm.stage(0, 1).engine->kv_pages_used(), 0u);
  pipeline.batcher().cancel(open.sequence);
  while (pipeline.step(sampled).value()) {
  }
  for (std::uint16_t i = 0; i < 3; ++i) EXPECT_EQ(swarm.stage(0, i).engine->kv_pages_used(), 0u);
  request.tokens = prompt;
  for (const SampledToken& one : sampled) request.tokens.push_back(one.token);
  for (RealStage& stage : pipeline.stages) {
    while (stage.receipts->has_claims()) {
      swarm.desk.take(stage.node, stage.receipts->take_claims());
    }
  }
  swarm.desk.over(request);
  swarm.pump();
  const std::vector<ledger::Receipt> receipts = swarm.receipts();
  ASSERT_EQ(receipts.size(), 3u);
  EXPECT_GE(receipts[0].positions, 9u) << "what was computed until then";
  EXPECT_LT(receipts[0].positions, 20u);
}

}  // namespace
}  // namespace hearth::attacks

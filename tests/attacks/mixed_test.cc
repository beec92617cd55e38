// What several may try together, and whatever else there is (CATALOGUE.md, X).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hex.h"
#include "kernels/kernels.h"
#include "kernels/self_test.h"
#include "ledger/selection.h"
#include "tests/attacks/ledger_world.h"
#include "tests/attacks/real_swarm.h"
#include "tests/unit/coordinator/proof/receipt_stage.h"

namespace hearth::attacks {
namespace {

using ledger::Verdict;

struct MixedAttack : ::testing::Test {
  static void one_off(StepBatch& batch, const Bytes&) {
    if (!batch.rows.empty()) set_residual(batch, 0, 9, residual(batch, 0, 9) ^ 1);
  }
  RealSwarm swarm;
};

TEST_F(MixedAttack, X01_NewKeyAfterAFraudBeginsWithNothing) {
  LedgerWorld world;
  const std::uint64_t entry = world.audited(0, world.auditor, false);
  world.add(ledger::VerdictEntry{entry, world.upper.public_key(), Verdict::kFraud, {}});
  EXPECT_EQ(world.of(world.upper).escrow(), 0);
  const SecretKey fresh = member_key(9);
  LedgerWorld let_in = world;
  world.add(ledger::MemberEntry{fresh.public_key(), hash_of("who knows"), false});
  EXPECT_EQ(world.spendable(fresh), 0);
  EXPECT_NE(
      world.refusal(world.entry_of(world.window(0, 1), fresh)).find("a newcomer may not serve"),
      std::string::npos);
  // Vouched for by the cluster it serves at once, and every window of its first is audited: so a
  // cluster that lets anybody in vouches for whom it has thrown out.
  let_in.add(ledger::MemberEntry{fresh.public_key(), hash_of("who knows"), true});
  EXPECT_EQ(let_in.of(fresh).level({}, let_in.now), ledger::Level::kProbation);
  EXPECT_EQ(let_in.of(fresh).audit_rate({}, let_in.now), ledger::kMillion);
}

TEST_F(MixedAttack, X02_SoldKeyIsAuditedMoreAndKeepsItsStake) {
  LedgerWorld world;
  for (std::uint32_t i = 0; i < 2'100; ++i) {
    world.audited(i, world.auditor);
    world.now += 60;
  }
  world.now += 60 * kDay;
  const std::int64_t rate = world.of(world.upper).audit_rate({}, world.now);
  EXPECT_EQ(rate, ledger::Policy().veteran_rate);
  const std::int64_t escrow = world.of(world.upper).escrow();
  world.add(ledger::ChangeEntry{world.upper.public_key()});
  EXPECT_EQ(world.of(world.upper).audit_rate({}, world.now), 3 * rate);
  EXPECT_EQ(world.of(world.upper).escrow(), escrow) << "what is at stake is sold with it";
  EXPECT_EQ(world.of(world.upper).audit_rate({}, world.now + 2 * kDay), rate);
}

TEST_F(MixedAttack, X03_TwoNeighboursWhoAgreeOnTheirEdge) {
  swarm.ask(1);
  swarm.stage(0, 0).lie = one_off;
  swarm.stage(0, 1).lie = one_off;
  swarm.ask(2);
  EXPECT_EQ(swarm.disputed_stage(), 0) << "the first who differs; what came in behind it was false";
  ASSERT_TRUE(swarm.judge(swarm.stage(0, 0).key.public_key(), Verdict::kFraud));
  // Behind an honest first stage the second one has the true input, and is found by the next audit.
  swarm.desk.end(swarm.pipelines[0]->epoch);
  swarm.audits.end(swarm.pipelines[0]->epoch);
  swarm.pipelines.front() =
      std::make_unique<RealPipeline>(swarm.file, Epoch(8), "m", 80, swarm.clock);
  swarm.stage(0, 1).lie = one_off;
  swarm.desk.begin(swarm.pipelines.front()->description());
  swarm.audits.begin(swarm.pipelines.front()->description());
  swarm.ask(3);
  EXPECT_EQ(swarm.disputed_stage(), 1);
}

TEST_F(MixedAttack, X04_AMajorityThatLiesAlikeIsNotSeenByItsOwn) {
  // Not defended by audits among nodes: here all who hold a layer range lie alike.
  swarm.stage(0, 1).lie = one_off;
  swarm.stage(1, 1).lie = one_off;
  for (unsigned i = 1; i <= 5; ++i) swarm.ask(i);
  EXPECT_TRUE(swarm.books.disputes().empty());
  EXPECT_EQ(swarm.standing(swarm.stage(0, 1)).audited_right(), 5);
  // One honest pipeline beside them is enough, whenever the draw names it.
  swarm.add_pipeline("c");
  for (unsigned i = 6; i <= 25; ++i) swarm.ask(i);
  EXPECT_FALSE(swarm.books.disputes().empty());
  for (const std::uint64_t entry : swarm.books.disputes()) {
    EXPECT_EQ(swarm.books.receipt(entry)->slot.stage, 1);
  }
  // The coordinator's own draw is over the same windows, at a rate that no other party can lower.
  const auto proof = vrf_prove(key_of(1), as_bytes("message"));
  const auto draw = ledger::Draw::open(as_bytes("message"), key_of(1).public_key(), proof);
  unsigned drawn = 0;
  for (std::uint64_t entry = 0; entry < 100'000; ++entry) {
    drawn += draw->selects_referee(entry, ledger::Policy().coordinator_rate) ? 1 : 0;
  }
  EXPECT_NEAR(drawn, 500, 2.6 * std::sqrt(500.0));
}

TEST_F(MixedAttack, X05_EdgesOfEd25519AreOneAnswerEverywhere) {
  // Made with tests/oracle/ed25519.py, whose verification is without the cofactor.
  const auto bytes = [](std::string_view hex) { return from_hex(hex).value(); };
  // A key and a point of order 8: right for one library and wrong for another. It is refused as a
  // key.
  EXPECT_FALSE(
      PublicKey::parse(bytes("46fb8abfcbc7dac11410f606ecea5ebf72c830439f2a6e1a8632c1fb6df2f6ff")));
  const auto key =
      PublicKey::parse(bytes("ed4928c628d1c2c6eae90338905995612959273a5c63f93636c14614ac8737d1"));
  ASSERT_TRUE(key);
  const Bytes message = bytes("00");
  EXPECT_TRUE(
      verify_plain(*key, message,
                   bytes("64b80529e15b7f38192173965be5727f18b441e962767179efffbb8b15de490a"
                         "115d4e83a062e30185406ec3031935f20708dd493fd00b919e12625246e86d0b")));
  EXPECT_FALSE(
      verify_plain(*key, message,
                   bytes("024aa53933cbbff807afb106407f98b5a839a2314b1e97009aa68166df5b63f9"
                         "3aab7033e7c57651aef59656530418032d8b9df15d7b5a81cfa16e35dd37aa0f")))
      << "a nonce with such a part is right with the cofactor alone: a library that takes it "
         "splits "
         "a ledger";
}

TEST_F(MixedAttack, X06_BytesAroundAReceiptChangeNothingAndItsOwnEverything) {
  using testing::ReceiptStage;
  testing::FakeClock clock;
  std::vector<ReceiptStage> stages = testing::receipt_stages();
  const auto entries = [&](const std::function<void(std::string&)>& meddle) {
    coordinator::ReceiptCollector desk(testing::receipt_cluster(), clock);
    desk.begin(testing::receipt_pipeline(stages));
    const coordinator::ReceiptRequest request = testing::receipt_request(1);
    desk.start(request.epoch, request.order.request, request.tokens.size());
    for (ReceiptStage& stage : stages) desk.take(stage.node, stage.claim(request));
    desk.over(request);
    for (const auto& message : desk.take_messages()) {
      ReceiptStage& stage = message.node == "a" ? stages[0] : stages[1];
      std::string wire = stage.sign(message.body).SerializeAsString();
      meddle(wire);
      control::v1::Receipts read;
      if (read.ParseFromString(wire)) desk.take(stage.node, read);
    }
    return desk.take_entries();
  };
  const std::vector<Bytes> plain = entries([](std::string&) {});
  const std::vector<Bytes> unknown = entries([](std::string& wire) {
    wire.insert(0, "\xf8\x3f\x07", 3);  // field 1023, a number
    wire += std::string("\xf8\x3f\x08", 3);
  });
  EXPECT_EQ(plain, unknown) << "the bytes that were signed are stored, and no others";
  const std::size_t whole = plain.size();
  for (std::size_t at = 3; at < 450; at += 5) {
    const std::vector<Bytes> changed = entries([at](std::string& wire) {
      if (at < wire.size()) wire[at] = static_cast<char>(wire[at] ^ 1);
    });
    EXPECT_LT(changed.size(), whole) << "byte " << at;
  }
}

TEST_F(MixedAttack, X07_WhatWasBegunAtAnotherTimeHasNoReceipt) {
  LedgerWorld world;
  world.add_window(0, 0);
  const std::int64_t most = ledger::Policy().audit_seconds;
  for (const std::int64_t skew : {-most - 1, most + 1, -30 * kDay, 30 * kDay}) {
    ledger::Receipt moved = world.window(0, 1);
    moved.begun_ms = static_cast<std::uint64_t>((world.now + skew) * 1'000);
    EXPECT_NE(world.refusal(world.entry_of(moved)).find("was begun at"), std::string::npos) << skew;
  }
  for (const std::int64_t skew : {-most, std::int64_t{0}, most}) {
    ledger::Receipt moved = world.window(0, 1);
    moved.begun_ms = static_cast<std::uint64_t>((world.now + skew) * 1'000);
    EXPECT_EQ(world.refusal(world.entry_of(moved)), "") << skew;
  }
  // The log's own times never go back, so an old place in it cannot be taken any more.
  EXPECT_NE(world.refusal(world.entry_of(world.window(0, 1)), world.now - 1), "");
}

TEST_F(MixedAttack, X09_AnotherTokenOfThoseThatWerePossibleIsADeviation) {
  // The second likeliest token, once: no receipt of an honest sampler has it.
  swarm.ask(1);
  bool chosen = false;
  swarm.stage(0, 2).compute = [&chosen](node::Engine& engine, StepBatch& batch,
                                        node::StepResult& result) {
    const std::vector<SequenceOpen> opens = batch.opens;
    for (SequenceOpen& open : batch.opens) {
      open.sampling.logprobs = true;
      open.sampling.top_logprobs = 5;
    }
    const Status done = engine.step(batch, result);
    batch.opens = opens;
    for (SampledToken& one : result.tokens) {
      const auto other = std::ranges::find_if(
          one.top, [&one](const TokenLogprob& top) { return top.token != one.token; });
      if (chosen || one.position != 13 || other == one.top.end()) continue;
      one.token = other->token;
      chosen = true;
    }
    return done;
  };
  swarm.ask(2);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(swarm.disputed_stage(), 2);
}

// A kernel with a fault that every card of a kind would have.
const kernels::Kernels* right_kernels = nullptr;
void wrong_add(float* x, const float* y, std::uint32_t n) {
  right_kernels->add(x, y, n);
  x[0] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x[0]) ^ 0x2000U);
}

TEST_F(MixedAttack, X10_AFaultThatAllShareIsSeenByAnotherKindAlone) {
  right_kernels = kernels::available_kernels().front();  // the scalar ones
  kernels::Kernels wrong = *right_kernels;
  wrong.add = wrong_add;
  EXPECT_FALSE(kernels::self_test(wrong)) << "a fault that the known answers touch never starts";
  wrong = *right_kernels;
  const auto give = [&](std::size_t pipeline, const kernels::Kernels* table) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      swarm.stage(pipeline, i).engine = load_engine(swarm.file, {2 * i, 2 * i + 2}, i, table);
    }
  };
  give(0, &wrong);
  give(1, &wrong);
  wrong.add = wrong_add;  // one that they do not touch
  swarm.ask(1);
  EXPECT_TRUE(swarm.books.disputes().empty()) << "the same fault agrees with itself";
  give(1, right_kernels);
  swarm.ask(2);
  EXPECT_EQ(swarm.disputed_stage(), 0);
  // The ledger has no word for a fault of the program: it is one party's or the other's.
  ASSERT_TRUE(swarm.judge(swarm.stage(0, 0).key.public_key(), Verdict::kFault));
  EXPECT_FALSE(swarm.standing(swarm.stage(0, 0)).is_tombstoned());
}

}  // namespace
}  // namespace hearth::attacks

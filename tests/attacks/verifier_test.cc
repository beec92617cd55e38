// What somebody who audits may try (CATALOGUE.md, V): stages of the pipeline that computes again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ledger/selection.h"
#include "proto/fixed_field.h"
#include "tests/attacks/ledger_world.h"
#include "tests/attacks/real_swarm.h"

namespace hearth::attacks {
namespace {

using ledger::Verdict;

struct VerifierAttack : ::testing::Test {
  // Its openings disagree, and the verdict is against it: the worker keeps what it has.
  void expect_guilty_auditor(std::uint16_t stage, Verdict verdict) {
    ASSERT_EQ(swarm.disputed_stage(), stage);
    RealStage& worker = swarm.stage(0, stage);
    RealStage& auditor = swarm.stage(1, stage);
    const std::int64_t right = swarm.standing(worker).audited_right();
    ASSERT_TRUE(swarm.judge(auditor.key.public_key(), verdict));
    EXPECT_EQ(swarm.standing(auditor).is_tombstoned(), verdict == Verdict::kFraud);
    EXPECT_FALSE(swarm.standing(worker).is_tombstoned());
    EXPECT_EQ(swarm.standing(worker).audited_right(), right);
    EXPECT_EQ(swarm.standing(worker).faults({}, swarm.clock.unix_seconds()), 0);
  }
  RealSwarm swarm;
};

TEST_F(VerifierAttack, V01_WhoGuessesNeverAgrees) {
  // It computes nothing and passes on what it invents; its seal is of a root that no node has.
  swarm.stage(1, 1).lie = [](StepBatch& batch, const Bytes&) {
    std::ranges::fill(batch.activations, std::byte{0});
  };
  swarm.ask(1);
  expect_guilty_auditor(1, Verdict::kFraud);
}

// An auditor has the salt, so the receipt of equal tokens can be found in the log by their
// commitment, and its roots are there to be read.
void claim_root(const RealStage& stage, control::v1::WindowClaim& claim, std::uint16_t index,
                bool goes_out, const Hash256& root) {
  const auto below = static_cast<std::uint16_t>(index + (goes_out ? 1 : 0));
  ledger::Edge edge{{}, claim.epoch(), below, claim.window(), root};
  ASSERT_TRUE(read_field(claim.request(), edge.request));
  const Signature signed_edge = ledger::sign_edge(edge, key_of(1).public_key(), stage.key);
  (goes_out ? *claim.mutable_out_root() : *claim.mutable_in_root()) = to_field(root.bytes);
  (goes_out ? *claim.mutable_out_signature() : *claim.mutable_in_signature()) =
      to_field(signed_edge);
}

constexpr std::uint16_t kLast = 2;  // of the stages of RealSwarm

// It computes nothing, and says what the log does.
void reads_the_log(RealSwarm& swarm, std::uint16_t index) {
  RealStage& thief = swarm.stage(1, index);
  thief.compute = [index](node::Engine& engine, StepBatch& batch, node::StepResult& result) {
    const Status done = engine.step(batch, result);  // for what the batcher has to hear
    std::ranges::fill(batch.activations, std::byte{0x11});
    for (SampledToken& one : result.tokens) {
      if (index == kLast) one.token = one.token == 60 ? 61 : 60;
    }
    return done;
  };
  thief.claim = [&swarm, &thief, index](control::v1::WindowClaim& claim) {
    const std::vector<ledger::Receipt> log = swarm.receipts();
    if (index == 1) claim_root(thief, claim, index, false, log[index].in_root);
    claim_root(thief, claim, index, true, log[index].out_root);
  };
}

bool is_refused(RealSwarm& swarm, std::size_t pipeline, std::size_t stage) {
  const PublicKey key = swarm.stage(pipeline, stage).key.public_key();
  return !swarm.audits.verdicts().keys().why_barred(key).empty();
}

void expect_no_audit(RealSwarm& swarm) {
  EXPECT_EQ(swarm.books.audits().agreed, 0u);
  EXPECT_TRUE(swarm.books.disputes().empty()) << "no node is a party for what a thief handed on";
  EXPECT_EQ(swarm.standing(swarm.stage(0, 0)).audited_right(), 0);
}

TEST_F(VerifierAttack, V02_WhoReadsARootInTheLogHasNoRowToShow) {
  for (std::uint16_t index = 0; index < kLast; ++index) {
    RealSwarm here;
    reads_the_log(here, index);
    here.ask(1);
    expect_no_audit(here);
    for (std::uint16_t i = 0; i < 3; ++i) {
      EXPECT_EQ(is_refused(here, 1, i), i == index) << index << ": it alone is named";
      EXPECT_FALSE(is_refused(here, 0, i));
    }
  }
}

TEST_F(VerifierAttack, V02_WhatTheLogHasOfALastStageIsNoToken) {
  reads_the_log(swarm, kLast);
  swarm.ask(1);
  expect_no_audit(swarm);
  EXPECT_TRUE(is_refused(swarm, 1, kLast));
  EXPECT_FALSE(is_refused(swarm, 1, 0) || is_refused(swarm, 1, 1));
}

TEST_F(VerifierAttack, V02_AnHonestLastStageIsNotMadeAThief) {
  swarm.runs_audits = false;
  const RealSwarm::Answer told = swarm.ask(1);
  // The stage before it puts in what was answered then, which its own draws are not.
  swarm.stage(1, 0).lie = [](StepBatch& batch, const Bytes&) {
    std::ranges::fill(batch.activations, std::byte{0x11});
  };
  swarm.stage(1, 1).hands_on = [&told](StepBatch& batch) {
    for (BatchRow& row : batch.rows) row.token = told.tokens.at(row.position);
  };
  swarm.run_waiting();
  expect_no_audit(swarm);
  for (std::uint16_t i = 0; i < 3; ++i) EXPECT_FALSE(is_refused(swarm, 1, i));
}

TEST_F(VerifierAttack, V02_APipelineOfThievesIsNoAudit) {
  for (std::uint16_t i = 0; i < 3; ++i) reads_the_log(swarm, i);
  swarm.ask(1);
  expect_no_audit(swarm);
  EXPECT_TRUE(is_refused(swarm, 1, 0));
}

TEST_F(VerifierAttack, V02_WhoClaimsOtherRowsThanItHandsOnIsNoAudit) {
  for (std::uint16_t index = 0; index < kLast; ++index) {
    RealSwarm here;
    here.stage(1, index).hands_on = [](StepBatch& batch) {
      std::ranges::fill(batch.activations, std::byte{0x11});
    };
    here.ask(1);
    expect_no_audit(here);
    for (std::uint16_t i = 0; i < 3; ++i) EXPECT_FALSE(is_refused(here, 1, i));
  }
}

// Handed every row by its worker or by who stood behind that, an auditor does what an honest one
// does, to the bit, and computes nothing. What it agrees to is what they said.
TEST_F(VerifierAttack, V02_WhoIsHandedTheRowsPassesAndAddsNothing) {
  for (std::uint16_t index = 0; index < kLast; ++index) {
    RealSwarm here;
    std::map<std::uint32_t, Bytes> rows;  // by position
    here.stage(0, index).hands_on = [&rows](StepBatch& batch) {
      if (batch.rows.empty()) return;
      const std::size_t size = batch.activations.size() / batch.rows.size();
      for (std::size_t i = 0; i < batch.rows.size(); ++i) {
        const ByteSpan row = ByteSpan(batch.activations).subspan(i * size, size);
        rows[batch.rows[i].position] = Bytes(row.begin(), row.end());
      }
    };
    here.stage(1, index).compute = [&rows](node::Engine& engine, StepBatch& batch,
                                           node::StepResult& result) {
      std::ranges::fill(batch.activations, std::byte{0x11});  // whatever came in
      const Status done = engine.step(batch, result);
      batch.activations.clear();
      for (const BatchRow& one : batch.rows) {
        ByteWriter(batch.activations).append(rows.at(one.position));
      }
      return done;
    };
    here.ask(1);
    EXPECT_EQ(here.books.audits().agreed, 3u);
    EXPECT_TRUE(here.books.disputes().empty());
  }
}

// A last stage has tokens to give and nothing else: its client can tell it these.
TEST_F(VerifierAttack, V02_WhoIsToldTheTokensIsAnAuditingLastStage) {
  swarm.runs_audits = false;
  const RealSwarm::Answer told = swarm.ask(1);
  ASSERT_EQ(swarm.runs.size(), 1u);
  swarm.stage(1, kLast).compute = [&told](node::Engine& engine, StepBatch& batch,
                                          node::StepResult& result) {
    const std::uint32_t next = batch.rows.empty() ? 0 : batch.rows.back().position + 1;
    std::ranges::fill(batch.activations, std::byte{0x11});  // whatever came in
    const Status done = engine.step(batch, result);
    for (SampledToken& one : result.tokens) one.token = told.tokens.at(next);
    return done;
  };
  swarm.run_waiting();
  EXPECT_EQ(swarm.books.audits().agreed, 3u);
}

TEST_F(VerifierAttack, V03_WhoAlwaysDisagreesCostsNobodyElseAnything) {
  LedgerWorld world;
  const std::int64_t before = 1'024;
  std::vector<std::uint64_t> doubted;
  for (std::uint32_t i = 0; i < 10; ++i) doubted.push_back(world.audited(i, world.auditor, false));
  EXPECT_EQ(world.books.disputes(), doubted);
  const std::int64_t escrow = world.of(world.upper).escrow();
  EXPECT_GE(escrow, before);
  EXPECT_NE(world.refusal(ledger::VestEntry{world.upper.public_key()}).find("in dispute"),
            std::string::npos)
      << "until a verdict its escrow waits";
  EXPECT_EQ(world.of(world.auditor).escrow(), 0) << "a disagreement is not paid";
  world.add(ledger::VerdictEntry{doubted[0], world.auditor.public_key(), Verdict::kFraud, {}});
  EXPECT_TRUE(world.of(world.auditor).is_tombstoned());
  EXPECT_EQ(world.of(world.upper).escrow(), escrow);
  EXPECT_NE(world.refusal(world.seal(doubted[1], world.auditor, hash_of("another"))), "")
      << "it is heard no more";
}

TEST_F(VerifierAttack, V03_ADisputeNamesTheGrieversOwnStage) {
  swarm.stage(1, 2).compute = [](node::Engine& engine, StepBatch& batch, node::StepResult& result) {
    Status done = engine.step(batch, result);
    for (SampledToken& one : result.tokens) one.token = one.token == 60 ? 61 : 60;
    return done;
  };
  swarm.ask(1);
  expect_guilty_auditor(2, Verdict::kFraud);
}

TEST_F(VerifierAttack, V04_NobodyAuditsItsOwnersWindows) {
  LedgerWorld world;
  const SecretKey twin = member_key(9);
  world.add(ledger::MemberEntry{twin.public_key(), hash_of(world.upper.public_key().hex()), true});
  const std::uint64_t entry = world.add_window(0, 0);
  EXPECT_NE(world.refusal(world.seal(entry, twin, hash_of("boundary 0"))).find("own owner"),
            std::string::npos);
  // Of candidates the draw leaves out the owners that are named, whichever they are.
  const auto proof = vrf_prove(key_of(1), as_bytes("message"));
  const auto draw = ledger::Draw::open(as_bytes("message"), key_of(1).public_key(), proof);
  const std::vector<ledger::Draw::Candidate> two = {{twin.public_key(), hash_of("one owner")},
                                                    {world.auditor.public_key(), hash_of("other")}};
  const Hash256 excluded = hash_of("one owner");
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(draw->auditor(i, two, {&excluded, 1}), world.auditor.public_key());
  }
}

TEST_F(VerifierAttack, V04_AFriendUnderAnotherNamePassesWhereTheDrawNamesIt) {
  // Two pipelines may audit; one of them is the liar's, under another owner's name, and lies alike.
  swarm.add_pipeline("c");
  const auto lie = [](StepBatch& batch, const Bytes&) {
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      set_residual(batch, i, 2, residual(batch, i, 2) ^ 1);
    }
  };
  swarm.stage(0, 1).lie = lie;
  swarm.stage(1, 1).lie = lie;
  constexpr unsigned kWindows = 80;
  for (unsigned i = 1; i <= kWindows; ++i) swarm.ask(i);
  // Half of the auditors are its friends: about half of its lies are found (99 %), so that no lie
  // that goes on is safe.
  EXPECT_NEAR(static_cast<double>(swarm.books.disputes().size()), kWindows / 2.0,
              2.6 * std::sqrt(kWindows / 4.0));
}

TEST_F(VerifierAttack, V05_WhatIsSealedAndNotOpenedCountsForNobody) {
  LedgerWorld world;
  const std::uint64_t entry = world.add_window(0, 0);
  world.add(world.draw());
  ASSERT_EQ(world.books.selected().size(), 1u);
  world.add(world.seal(entry, world.auditor, hash_of("another")));
  world.now += 2 * ledger::Policy().audit_seconds;
  world.add(ledger::GrantEntry{world.client.public_key(), 1});
  EXPECT_EQ(world.books.audits().missed, 1u) << "it is counted as no audit, and shows";
  EXPECT_EQ(world.of(world.upper).audited_right(), 0);
  EXPECT_EQ(world.of(world.auditor).escrow(), 0);
  EXPECT_FALSE(world.of(world.auditor).is_tombstoned()) << "but is no fault of its auditor's";
}

TEST_F(VerifierAttack, V06_AThousandNewcomersMoveNobody) {
  LedgerWorld world;
  const std::uint64_t entry = world.add_window(0, 0);
  std::vector<SecretKey> sybils;
  for (int i = 0; i < 1'000; ++i) {
    Bytes seed(SecretKey::kSeedBytes, std::byte{7});
    seed[0] = std::byte(i & 0xff);
    seed[1] = std::byte(i >> 8);
    sybils.push_back(SecretKey::from_seed(seed).value());
    world.add(ledger::MemberEntry{sybils.back().public_key(), hash_of(std::to_string(i)), false});
  }
  for (const SecretKey& one : sybils) world.add(world.seal(entry, one, hash_of("boundary 0")));
  for (const SecretKey& one : sybils) world.add(world.opening(entry, one, hash_of("boundary 0")));
  EXPECT_EQ(world.books.audits().agreed, 1'000u);
  EXPECT_EQ(world.of(world.upper).audited_right(), 0) << "no standing moves by their word";
  world.now += 100 * kDay;
  world.add(ledger::VestEntry{sybils[0].public_key()});
  EXPECT_EQ(world.spendable(sybils[0]), 0) << "and what they earned they cannot spend";
  EXPECT_NE(world.refusal(world.entry_of(world.window(0, 1), sybils[0])), "") << "nor serve";
}

TEST_F(VerifierAttack, V08_AFaultyAuditorIsAFault) {
  swarm.ask(1);
  bool flipped = false;
  swarm.stage(1, 0).lie = [&flipped](StepBatch& batch, const Bytes&) {
    if (!std::exchange(flipped, true)) batch.activations[80] ^= std::byte{4};
  };
  swarm.ask(2);
  expect_guilty_auditor(0, Verdict::kFault);
  swarm.ask(3);
  EXPECT_TRUE(swarm.books.disputes().empty()) << "and both go on";
  EXPECT_EQ(swarm.refusal, "");
}

}  // namespace
}  // namespace hearth::attacks

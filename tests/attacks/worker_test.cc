// What a worker may try (CATALOGUE.md, A): stages of real engines that lie, each before the desks
// of receipts and audits and the books of a stranger.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ledger/selection.h"
#include "model/synthetic.h"
#include "proto/committed_sampling.h"
#include "tests/attacks/ledger_world.h"
#include "tests/attacks/real_swarm.h"

namespace hearth::attacks {
namespace {

using coordinator::AuditMode;
using ledger::Verdict;

struct WorkerAttack : ::testing::Test {
  // An honest window, then one that `lie` is at work in: the dispute names that stage of the
  // pipeline that answered. The verdict of fraud ends it, and it serves no more.
  void expect_fraud(std::uint16_t stage, const std::function<void(RealStage&)>& lie) {
    swarm.ask(1);
    ASSERT_TRUE(swarm.books.disputes().empty()) << "honest pipelines agree";
    lie(swarm.stage(0, stage));
    swarm.ask(2);
    ASSERT_EQ(swarm.disputed_stage(), stage);
    RealStage& liar = swarm.stage(0, stage);
    EXPECT_EQ(swarm.books.receipt(swarm.books.disputes().front())->worker, liar.key.public_key());
    ASSERT_TRUE(swarm.judge(liar.key.public_key(), Verdict::kFraud));
    EXPECT_TRUE(swarm.standing(liar).is_tombstoned());
    for (std::uint16_t i = 0; i < 3; ++i) {
      EXPECT_EQ(swarm.standing(swarm.stage(0, i)).is_tombstoned(), i == stage);
      EXPECT_FALSE(swarm.standing(swarm.stage(1, i)).is_tombstoned());
    }
    const std::size_t before = swarm.receipts().size();
    swarm.ask(3);
    EXPECT_EQ(swarm.refusal, "") << "nothing is logged that a stranger's books refuse";
    EXPECT_LT(swarm.receipts().size(), before + 3);
  }
  // The engine of another file in place of the stage's own.
  static std::function<void(RealStage&)> with_model(const model::SyntheticOptions& options,
                                                    std::uint32_t stage) {
    return [options, stage](RealStage& one) {
      const auto other = parse_model(model::synthetic_model_bytes(options).value());
      one.engine = load_engine(other, {2 * stage, 2 * stage + 2}, stage);
    };
  }

  RealSwarm swarm;
};

// What a stage leaves in place of its rows.
using Rows = std::function<void(StepBatch&, const Bytes& in)>;
std::function<void(RealStage&)> leaving(Rows rows) {
  return [rows](RealStage& stage) { stage.lie = rows; };
}

TEST_F(WorkerAttack, A01_AnotherModelsShard) {
  model::SyntheticOptions other = small_model();
  other.seed = 2;
  expect_fraud(1, with_model(other, 1));
}

TEST_F(WorkerAttack, A02_WeightsOfFewerBits) {
  model::SyntheticOptions coarse = small_model();
  coarse.attention_type = model::TensorType::kQ4_0;
  expect_fraud(1, with_model(coarse, 1));
}

TEST_F(WorkerAttack, A03_OneLayerOfItsStageLeftOut) {
  expect_fraud(1, [](RealStage& stage) {
    const auto file = parse_model(model::synthetic_model_bytes(small_model()).value());
    stage.engine = load_engine(file, {2, 3}, 1);
  });
}

TEST_F(WorkerAttack, A04_StageThatReturnsItsInput) {
  // A row's hash has the layer in it, so equal rows before and behind a stage have other roots: it
  // is an audit that finds it, and not the rule that a receipt's output is not its input.
  expect_fraud(1, [](RealStage& stage) {
    stage.compute = [](node::Engine& engine, StepBatch& batch, node::StepResult& result) {
      const Bytes in = batch.activations;
      const Status done = engine.step(batch, result);
      batch.activations = in;
      return done;
    };
  });
  ledger::Receipt same = LedgerWorld().window(0, 1);
  same.out_root = same.in_root;
  EXPECT_FALSE(ledger::sign_receipt(same, key_of(1).public_key(), key_of(3)))
      << "where the roots are equal the receipt is refused";
}

TEST_F(WorkerAttack, A05_RowsOfOneConstant) {
  expect_fraud(1, leaving([](StepBatch& batch, const Bytes&) {
                 std::ranges::fill(batch.activations, std::byte{0x11});
               }));
}

TEST_F(WorkerAttack, A05_RowsOfNoise) {
  expect_fraud(0, leaving([](StepBatch& batch, const Bytes&) {
                 Hash256 noise = blake2b(batch.activations);
                 for (std::size_t i = 0; i < batch.activations.size(); i += 2) {
                   if (i % 32 == 0) noise = blake2b(noise.bytes);
                   batch.activations[i] = noise.bytes[i % 32];
                   batch.activations[i + 1] = noise.bytes[i % 32 + 1] & std::byte{0x3b};  // finite
                 }
               }));
}

TEST_F(WorkerAttack, A06_OneTokenOfAWindow) {
  // A window is whole: one audit of it sees any of its rows.
  expect_fraud(0, leaving([](StepBatch& batch, const Bytes&) {
                 for (std::size_t row = 0; row < batch.rows.size(); ++row) {
                   if (batch.rows[row].position != 7) continue;
                   set_residual(batch, row, 3, residual(batch, row, 3) ^ 1);
                 }
               }));
}

TEST_F(WorkerAttack, A07_OutputOfAnEarlierRequest) {
  // The same prompt again, with another seed: what the stage kept of the first time.
  std::map<Position, Bytes> kept;
  RealStage& stage = swarm.stage(0, 0);
  const auto row_of = [](StepBatch& batch, std::size_t row) {
    const std::size_t each = batch.activations.size() / batch.rows.size();
    return std::span(batch.activations).subspan(row * each, each);
  };
  stage.lie = [&](StepBatch& batch, const Bytes&) {
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      const auto row = row_of(batch, i);
      kept[batch.rows[i].position] = Bytes(row.begin(), row.end());
    }
  };
  const std::vector<TokenId> prompt = {40, 50, 60, 70, 80};
  const RealSwarm::Answer first = swarm.ask(prompt, 8, 5.0F);
  stage.lie = [&](StepBatch& batch, const Bytes&) {
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      std::ranges::copy(kept.at(batch.rows[i].position), row_of(batch, i).begin());
    }
  };
  const RealSwarm::Answer second = swarm.ask(prompt, 8, 5.0F);
  ASSERT_NE(first.tokens, second.tokens) << "another seed, other tokens";
  EXPECT_EQ(swarm.disputed_stage(), 0);
  EXPECT_TRUE(swarm.judge(stage.key.public_key(), Verdict::kFraud));
  // Where every input is equal, the output is equal too: what is kept is then simply right.
  EXPECT_EQ(swarm.receipts().back().prompt_positions, 5u);
}

TEST_F(WorkerAttack, A08_AnotherReplicasSealIsWorthNothing) {
  LedgerWorld world;
  const std::uint64_t entry = world.add_window(0, 0);
  const ledger::SealEntry right = world.seal(entry, world.auditor, hash_of("boundary 0"));
  world.add(right);
  ledger::SealEntry copied = right;
  copied.auditor = world.newcomer.public_key();
  EXPECT_NE(world.refusal(copied), "") << "it bears another's signature";
  copied = ledger::sign_seal(entry, right.seal, world.cluster.public_key(), world.newcomer);
  world.add(copied);
  world.add(world.opening(entry, world.auditor, hash_of("boundary 0")));
  EXPECT_NE(world.refusal(world.opening(entry, world.newcomer, hash_of("boundary 0"))), "")
      << "it cannot be opened: a seal has its auditor's key in it";
}

TEST_F(WorkerAttack, A10_CheatingWhereAuditsAreNotExpectedChangesNothing) {
  // By whatever a window looks like: its number is drawn after it is in the log. Of windows of two
  // kinds, the share that is drawn is the same (chi-square with one degree of freedom, 99 %).
  const Bytes message = ledger::draw_message(5, hash_of("root"), key_of(1).public_key());
  const auto proof = vrf_prove(key_of(1), message);
  const auto draw = ledger::Draw::open(message, key_of(1).public_key(), proof);
  ASSERT_TRUE(draw);
  constexpr std::int64_t kRate = 50'000;
  double count[2] = {}, drawn[2] = {};
  for (std::uint64_t entry = 0; entry < 40'000; ++entry) {
    const bool is_short =
        blake2b(as_bytes("window " + std::to_string(entry))).bytes[0] < std::byte{64};
    count[is_short] += 1;
    drawn[is_short] += draw->selects(entry, kRate) ? 1 : 0;
  }
  const double p = (drawn[0] + drawn[1]) / (count[0] + count[1]);
  double chi = 0;
  for (const int kind : {0, 1}) {
    const double expected = p * count[kind];
    const double gap = drawn[kind] - expected;
    chi += gap * gap / expected + gap * gap / (count[kind] - expected);
  }
  EXPECT_LT(chi, 6.63);
  EXPECT_NEAR(p * 40'000, 2'000, 2.6 * std::sqrt(40'000 * 0.05 * 0.95));
}

TEST_F(WorkerAttack, A11_ContextThatIsForgotten) {
  // From position 8 on it computes as if the request had begun there.
  expect_fraud(1, [](RealStage& stage) {
    stage.compute = [](node::Engine& engine, StepBatch& batch, node::StepResult& result) {
      constexpr Position kForgets = 8;
      const std::vector<BatchRow> rows = batch.rows;
      const auto late =
          std::ranges::find_if(rows, [](const BatchRow& row) { return row.position >= kForgets; });
      const auto early = static_cast<std::size_t>(late - rows.begin());
      const std::size_t kept = rows.empty() ? 0 : batch.activations.size() / rows.size() * early;
      StepBatch forgetful;
      forgetful.epoch = batch.epoch;
      forgetful.step = batch.step;
      forgetful.rows.assign(late, rows.end());
      forgetful.activations.assign(batch.activations.begin() + static_cast<std::ptrdiff_t>(kept),
                                   batch.activations.end());
      batch.rows.resize(early);
      batch.activations.resize(kept);
      Status done = engine.step(batch, result);
      if (!done || late == rows.end()) return done;
      for (BatchRow& row : forgetful.rows) {
        row.sequence = SequenceId(row.sequence.value + 1'000'000);
        row.position -= kForgets;
        if (row.position > 0) continue;
        SequenceOpen open{row.sequence, 4, false, {}};
        open.sampling.max_tokens = 100;
        forgetful.opens.push_back(open);
      }
      done = engine.step(forgetful, result);
      batch.rows = rows;
      batch.activations.insert(batch.activations.end(), forgetful.activations.begin(),
                               forgetful.activations.end());
      return done;
    };
  });
}

TEST_F(WorkerAttack, A12_CacheOfAnotherUsersPrefix) {
  // The stage keeps the keys and values of the first request and computes the second behind them.
  RealStage& stage = swarm.stage(0, 1);
  std::optional<SequenceId> first;
  stage.compute = [&first](node::Engine& engine, StepBatch& batch, node::StepResult& result) {
    const StepBatch as_it_was = batch;
    if (!first) first = batch.rows.front().sequence;
    for (SequenceOpen& open : batch.opens) open.sampling.max_tokens = 400;
    batch.releases.clear();  // it is kept
    const Status done = engine.step(batch, result);
    batch.opens = as_it_was.opens;
    batch.releases = as_it_was.releases;
    return done;
  };
  swarm.ask({40, 50, 60, 70, 80, 90}, 1);
  ASSERT_TRUE(swarm.books.disputes().empty());
  std::vector<SequenceId> released;
  stage.compute = [&first](node::Engine& engine, StepBatch& batch, node::StepResult& result) {
    const StepBatch as_it_was = batch;
    batch.opens.clear();
    batch.releases.clear();
    for (BatchRow& row : batch.rows) {
      row.sequence = *first;
      row.position += 6;
    }
    const Status done = engine.step(batch, result);
    batch.opens = as_it_was.opens;
    batch.releases = as_it_was.releases;
    batch.rows = as_it_was.rows;
    return done;
  };
  swarm.ask({41, 51, 61, 71, 81, 91}, 1);
  EXPECT_EQ(swarm.disputed_stage(), 1);
  EXPECT_TRUE(swarm.judge(stage.key.public_key(), Verdict::kFault)) << "where it concedes";
  EXPECT_FALSE(swarm.standing(stage).is_tombstoned());
}

// What an auditor kept it computed itself, from these inputs.
TEST_F(WorkerAttack, A12_AnAuditThatFindsKeptPagesSeesTheLie) {
  swarm.scope = hash_of("an API key");
  std::vector<TokenId> prompt;
  for (TokenId token = 40; token < 140; ++token) prompt.push_back(token);
  const RealPipeline& auditor = *swarm.pipelines[1];
  swarm.ask(prompt, 4, 0);
  EXPECT_EQ(auditor.replayed, 0u);
  swarm.ask(prompt, 4, 0);
  ASSERT_TRUE(swarm.books.disputes().empty());
  const std::uint64_t replayed = auditor.replayed;
  EXPECT_GE(replayed, 3u * 96u) << "its three stages find what the first audit left";
  RealStage& stage = swarm.stage(0, 1);
  stage.lie = [](StepBatch& batch, const Bytes&) {
    if (batch.rows.empty() || batch.rows.front().position != 0) return;
    set_residual(batch, 0, 0, residual(batch, 0, 0) ^ 1);
  };
  swarm.ask(prompt, 4, 0);
  EXPECT_GT(auditor.replayed, replayed);
  EXPECT_EQ(swarm.disputed_stage(), 1);
  EXPECT_TRUE(swarm.judge(stage.key.public_key(), Verdict::kFraud));
}

TEST_F(WorkerAttack, A13_OneFlippedBitIsAFaultAndNoFraud) {
  RealStage& stage = swarm.stage(0, 1);
  swarm.ask(1);
  bool flipped = false;
  stage.lie = [&flipped](StepBatch& batch, const Bytes&) {
    if (!std::exchange(flipped, true)) batch.activations[40] ^= std::byte{8};
  };
  swarm.ask(2);
  ASSERT_EQ(swarm.disputed_stage(), 1);
  ASSERT_TRUE(swarm.judge(stage.key.public_key(), Verdict::kFault));
  EXPECT_FALSE(swarm.standing(stage).is_tombstoned());
  EXPECT_EQ(swarm.standing(stage).faults({}, swarm.clock.unix_seconds()), 1);
  swarm.ask(3);
  EXPECT_EQ(swarm.refusal, "") << "and it goes on";
  EXPECT_TRUE(swarm.books.disputes().empty());
}

TEST_F(WorkerAttack, A14_StuckBitOfAWeightErrsEveryTime) {
  Bytes bytes = model::synthetic_model_bytes(small_model()).value();
  const auto own = parse_model(bytes);
  const model::TensorInfo* tensor = own->find_tensor("blk.2.ffn_down.weight");
  ASSERT_NE(tensor, nullptr);
  bytes[tensor->offset + 5] ^= std::byte{0x40};
  RealStage& stage = swarm.stage(0, 1);
  stage.engine = load_engine(parse_model(bytes), {2, 4}, 1);
  for (unsigned i = 1; i <= 3; ++i) {
    swarm.ask(i);
    ASSERT_EQ(swarm.disputed_stage(), 1) << "request " << i;
    ASSERT_TRUE(swarm.judge(stage.key.public_key(), Verdict::kFault));
  }
  // Three faults within the time: a newcomer again, which may not serve until its dues are paid.
  EXPECT_FALSE(swarm.standing(stage).is_tombstoned());
  EXPECT_EQ(swarm.standing(stage).level({}, swarm.clock.unix_seconds()), ledger::Level::kNewcomer);
  swarm.ask(4);
  EXPECT_NE(swarm.refusal.find("a newcomer may not serve"), std::string::npos);
}

TEST_F(WorkerAttack, A15_NothingOfAWorkersIsNeededForItsAudit) {
  // It goes right behind its answer; the audit is of the tokens that the coordinator sent.
  swarm.runs_audits = false;
  swarm.ask(1);
  ASSERT_EQ(swarm.runs.size(), 1u);
  swarm.desk.end(swarm.pipelines[0]->epoch);
  swarm.audits.end(swarm.pipelines[0]->epoch);
  EXPECT_EQ(swarm.runs[0].nodes, (std::vector<std::string>{"b0", "b1", "b2"}));
  EXPECT_EQ(swarm.runs[0].prompt.size(), 12u);
}

TEST_F(WorkerAttack, A15_WhoSaysNothingOfAWindowHasNoReceipt) {
  RealStage& stage = swarm.stage(0, 1);
  stage.claim = [](control::v1::WindowClaim& claim) { claim.set_positions(0); };
  swarm.ask(1);
  EXPECT_TRUE(swarm.receipts().empty());
  swarm.later(std::chrono::minutes(1));
  EXPECT_TRUE(swarm.receipts().empty()) << "nor have its neighbours one of that window";
}

TEST_F(WorkerAttack, A17_TwoReceiptsOfOneSlotProveThemselves) {
  LedgerWorld world;
  world.add_window(0, 0);
  const ledger::Receipt one = world.window(0, 1);
  ledger::Receipt other = one;
  other.out_root = hash_of("what it tells somebody else");
  world.sign_edges(other);
  const auto bytes = [&world](const ledger::Receipt& r) { return world.entry_of(r).receipt; };
  ledger::Receipt later = one;
  later.took_ms = 7;
  EXPECT_NE(world.refusal(ledger::EquivocationEntry{bytes(one), bytes(later)}), "")
      << "another time contradicts nothing";
  ASSERT_GT(world.of(world.upper).escrow(), 0);
  world.add(ledger::EquivocationEntry{bytes(one), bytes(other)});
  EXPECT_EQ(world.of(world.upper).escrow(), 0) << "without a referee and without an audit";
  EXPECT_TRUE(world.of(world.upper).is_tombstoned());
  EXPECT_NE(world.refusal(ledger::MemberEntry{world.upper.public_key(), {}, true}), "");
}

TEST_F(WorkerAttack, A18_AnotherBuildHasNoReceipts) {
  RealStage& stage = swarm.stage(0, 1);
  stage.receipts = std::make_unique<node::WindowReceipts>(
      node::ReceiptIdentity{stage.key, key_of(1).public_key(), "an old build"}, swarm.clock);
  node::Assignment assignment;
  assignment.epoch = swarm.pipelines[0]->epoch;
  assignment.stage = 1;
  assignment.stages = 3;
  assignment.layers = {2, 4};
  stage.receipts->begin(assignment, blake2b(as_bytes("the small model")));
  swarm.ask(1);
  for (const ledger::Receipt& one : swarm.receipts()) EXPECT_NE(one.slot.stage, 1);
  EXPECT_EQ(swarm.receipts().size(), 2u) << "those of its neighbours alone";
}

TEST_F(WorkerAttack, A19_NearlyEqualIsNotEqual) {
  // The least that a value can differ: one unit in the last place of one value of one row.
  expect_fraud(0, leaving([](StepBatch& batch, const Bytes&) {
                 if (batch.rows.empty() || batch.rows.front().position != 0) return;
                 set_residual(batch, 0, 0, residual(batch, 0, 0) ^ 1);
               }));
}

TEST_F(WorkerAttack, A20_ValuesThatAreNoNumbersEndTheirSequenceAlone) {
  RealPipeline& pipeline = *swarm.pipelines[0];
  for (const std::uint16_t value : {0x7C00, 0xFC00, 0x7E01}) {
    bool done = false;
    swarm.stage(0, 0).lie = [value, &done](StepBatch& batch, const Bytes&) {
      if (!batch.rows.empty() && !std::exchange(done, true)) set_residual(batch, 0, 5, value);
    };
    const std::vector<TokenId> prompt = {40, 50, 60};
    const auto ended = pipeline.compute(swarm.open(prompt, {}, {}), prompt);
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::kNumeric) << "the stage behind it says so";
  }
  swarm.stage(0, 0).lie = {};
  const std::vector<TokenId> prompt = {40, 50, 60};
  EXPECT_TRUE(pipeline.compute(swarm.open(prompt, {}, {}), prompt)) << "and no other node is hurt";
}

TEST_F(WorkerAttack, A20_TheOtherZeroIsAnotherRow) {
  // No honest party is split: -0 has another hash than 0 for every reader.
  bool changed = false;
  expect_fraud(0, leaving([&changed](StepBatch& batch, const Bytes&) {
                 if (changed || batch.rows.empty()) return;
                 changed = true;
                 set_residual(batch, 0, 0, residual(batch, 0, 0) == 0 ? 0x8000 : 0);
                 set_residual(batch, 0, 1, 0x8000);
               }));
}

TEST_F(WorkerAttack, A21_MorePositionsThanWereComputedHaveNoReceipt) {
  swarm.stage(0, 1).claim = [](control::v1::WindowClaim& claim) {
    claim.set_positions(claim.positions() + 1);
  };
  swarm.ask(1);
  EXPECT_TRUE(swarm.receipts().empty());
  for (std::uint16_t i = 0; i < 3; ++i) {
    swarm.stage(0, i).claim = [](control::v1::WindowClaim& claim) { claim.set_positions(400); };
  }
  swarm.ask(2);
  EXPECT_TRUE(swarm.receipts().empty()) << "nor when all of them say so: its tokens are counted";
}

TEST_F(WorkerAttack, A22_RowsOfAnotherSizeAreRefusedBeforeTheyAreRead) {
  StepBatch batch;
  batch.epoch = Epoch(1);
  batch.opens.push_back(swarm.open({40, 50}, {}, {}));
  batch.rows.push_back({batch.opens[0].sequence, 0, 40, 0});
  batch.rows.push_back({batch.opens[0].sequence, 1, 50, 0});
  node::Engine& next = *swarm.stage(0, 1).engine;
  const StepShape shape = next.input_shape();
  batch.activations.resize(2 * shape.hidden_size * 2);
  EXPECT_TRUE(decode_step_batch(encode(batch), shape));
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{255},
                                 std::size_t{3} * shape.hidden_size * 2, std::size_t{1} << 24}) {
    StepBatch wrong = batch;
    wrong.activations.resize(size);
    EXPECT_FALSE(decode_step_batch(encode(wrong), shape)) << size;
    node::StepResult result;
    EXPECT_FALSE(next.step(wrong, result)) << size;
  }
  Bytes counts = encode(batch);
  for (std::size_t at = 0; at + 4 <= counts.size() && at < 64; ++at) {
    Bytes huge = counts;
    std::fill_n(huge.begin() + static_cast<std::ptrdiff_t>(at), 4, std::byte{0xff});
    const auto read = decode_step_batch(huge, shape);
    if (!read) continue;
    EXPECT_EQ(read->rows.size(), 2u);
  }
}

TEST_F(WorkerAttack, A23_AMaskThatIsIgnored) {
  // A last stage that saves itself the mask, and claims what it sampled under the request's own
  // parameters.
  swarm.grammar = any_object_grammar();
  expect_fraud(2, [](RealStage& stage) { stage.compute = compute_without_mask; });
}

TEST_F(WorkerAttack, A23_WhoComputesWithAnotherGrammarCommitsToAnother) {
  // What is signed has the grammar in it, so that another one is no receipt of this request.
  SamplingParams sampling;
  sampling.grammar = any_object_grammar();
  SamplingParams without = sampling;
  without.grammar.clear();
  const auto commitment = [](const SamplingParams& params) {
    const std::uint32_t fed = 30;
    return ledger::commit_tokens(blake2b(as_bytes("salt")), 0, {&fed, 1}, encode_committed(params));
  };
  EXPECT_EQ(commitment(sampling), commitment(sampling));
  EXPECT_NE(commitment(sampling), commitment(without));

  swarm.grammar = any_object_grammar();
  swarm.stage(0, 0).compute = [](node::Engine& engine, StepBatch& batch, node::StepResult& result) {
    for (SequenceOpen& open : batch.opens) open.sampling.grammar.clear();  // for all that follow
    return engine.step(batch, result);
  };
  swarm.ask(1);
  EXPECT_TRUE(swarm.receipts().empty()) << "all stages agree, and it is not what was asked for";
}

}  // namespace
}  // namespace hearth::attacks

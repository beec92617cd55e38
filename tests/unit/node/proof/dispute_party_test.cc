// The two sides of a dispute as nodes play it, and the coordinator's desk between them.
#include "node/proof/dispute_party.h"

#include <gtest/gtest.h>

#include <map>

#include "coordinator/proof/dispute_desk.h"
#include "disputed.h"
#include "proto/fixed_field.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

using control::v1::DisputeOrder;
using coordinator::DisputeDesk;
using coordinator::DisputePlayed;
using ledger::TraceOp;
using ledger::TraceSlot;
using Move = control::v1::DisputeMove;

constexpr LayerRange kLayers{0, 2};
constexpr std::uint64_t kEntry = 17;  // of disputed.h

void lie(std::uint32_t position, const TraceSlot& slot, Bytes& value) {
  if (position == 5 && slot == TraceSlot{TraceOp::kGate, 1}) value[2] ^= std::byte{0xFF};
}

struct DisputePartyTest : ::testing::Test {
  DisputePartyTest() {
    desk.set_tools({Disputed::kBuild,
                    [this](LayerRange layers, std::uint32_t prompt) -> Result<ledger::TraceShape> {
                      return trace_shape(*model::ModelSpec::read(*of.file), layers, prompt);
                    },
                    [this](const ledger::DisputeFile& file, bool with_model) {
                      return check(file, with_model);
                    }});
    sit("worker", of.worker, lie);
    sit("auditor", of.auditor, {});
  }
  Result<coordinator::DisputeTools::Found> check(const ledger::DisputeFile& file,
                                                 bool with_model) const {
    TRY(const DisputeFinding found, check_dispute(file, with_model ? of.file.get() : nullptr));
    return coordinator::DisputeTools::Found{found.decided, found.wrong, found.why};
  }
  void sit(const std::string& node, const SecretKey& key, Fault fault) {
    parties[node] = std::make_unique<DisputeParty>(
        key, of.cluster.public_key(), [this](LayerRange) { return Result(of.file); },
        [fault](Tracer::Parts parts) -> std::unique_ptr<Tracer> {
          return std::make_unique<FaultyTracer>(std::move(parts), fault);
        });
  }
  coordinator::DisputeTable table() const {
    coordinator::DisputeTable out;
    out.said = of.case_of(*liar, *of.honest);
    out.said.shape = {};
    out.model = of.model_id();
    const auto pipeline = [](const std::string& node) {
      coordinator::ReceiptPipeline one{Epoch(3), {}, {}};
      one.stages.push_back({node, PublicKey(), kLayers});
      return coordinator::DisputeTable::Side{
          node, std::make_shared<const coordinator::ReceiptPipeline>(one)};
    };
    out.sides = {pipeline("worker"), pipeline("auditor")};
    out.run.order.salt = of.input.salt;
    out.run.prompt.assign(of.input.tokens.begin(), of.input.tokens.begin() + Disputed::kPrompt);
    out.run.answer.assign(of.input.tokens.begin() + Disputed::kPrompt, of.input.tokens.end());
    out.run.sampling = of.input.sampling;
    out.witness = ledger::DisputeSide::kAuditor;
    return out;
  }
  static Move declined(std::uint64_t entry, const Error& why) {
    Move move;
    move.set_entry(entry);
    move.set_declined(why.message);
    return move;
  }
  // What a node says to an order; nothing where it has nothing to say.
  std::optional<Move> obey(const std::string& node, const DisputeOrder& order) {
    DisputeParty& party = *parties.at(node);
    Move move;
    move.set_entry(order.entry());
    if (order.has_over()) return std::nullopt;
    if (order.has_begin()) {
      const auto run = party.begin(order);
      if (!run) return declined(order.entry(), run.error());
      keeps[node] = *run;
      move.set_keeps(true);
      return move;
    }
    auto moved = party.move(order);
    return moved ? *std::move(moved) : declined(order.entry(), moved.error());
  }
  void say(const std::string& node, Move move) {
    if (!tamper || tamper(node, move)) desk.take(node, move);
  }
  // Until nobody has anything to say.
  void pump() {
    for (bool any = true; any;) {
      any = false;
      for (const DisputeDesk::Message& message : desk.take_messages()) {
        any = true;
        if (const auto move = obey(message.node, message.body)) say(message.node, *move);
      }
      for (const coordinator::AuditRun& run : desk.take_runs()) {
        any = true;
        EXPECT_TRUE(desk.is_run(run.order.request));
        runs.push_back(run);
        const std::string& node = run.nodes.at(0);
        EXPECT_EQ(keeps.at(node), run.order.request) << "it knows what to keep before it comes";
        const Status traced = parties.at(node)->trace(input, {});
        Move move;
        move.set_entry(kEntry);
        move.set_traced(true);
        say(node, traced.ok() ? move : declined(kEntry, traced.error()));
      }
      for (DisputePlayed& one : desk.take_played()) played.push_back(std::move(one));
    }
  }
  void play() {
    EXPECT_EQ(desk.begin(table()), std::nullopt);
    pump();
  }
  void later(Duration time) {
    clock.advance(time);
    desk.on_timer();
    pump();
  }
  // The one game, which was not decided.
  std::string why() const {
    if (played.size() != 1) return "games: " + std::to_string(played.size());
    EXPECT_FALSE(played[0].decided);
    EXPECT_TRUE(played[0].file.empty());
    return played[0].why;
  }
  void expect_worker_wrong() const {
    ASSERT_EQ(played.size(), 1U);
    EXPECT_TRUE(played[0].decided) << played[0].why;
    EXPECT_TRUE(played[0].wrong[0]);
    EXPECT_FALSE(played[0].wrong[1]);
    EXPECT_EQ(played[0].entry, kEntry);
  }

  Disputed of{disputed_model("llama"), kLayers};
  std::unique_ptr<Tracer> liar = of.liar(lie);
  TraceInput input = of.input;
  testing::FakeClock clock;
  DisputeDesk desk{clock};
  std::map<std::string, std::unique_ptr<DisputeParty>> parties;
  std::map<std::string, ledger::RequestId> keeps;
  std::vector<coordinator::AuditRun> runs;
  std::vector<DisputePlayed> played;
  std::function<bool(const std::string& node, Move&)> tamper;
};

TEST_F(DisputePartyTest, TheFileAloneShowsWhoWasWrong) {
  play();
  expect_worker_wrong();
  ASSERT_EQ(runs.size(), 2U) << "on both pipelines";
  EXPECT_NE(runs[0].order.request, runs[1].order.request);
  EXPECT_FALSE(played[0].needs_model);
  EXPECT_NE(played[0].why.find("position 5, layer 1, gate"), std::string::npos) << played[0].why;
  const auto file = ledger::parse_dispute(played[0].file);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_FALSE(file->tokens) << "they are their owner's";
  const auto found = check_dispute(*file, nullptr);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found->decided && found->wrong[0] && !found->wrong[1]);
}

TEST_F(DisputePartyTest, WhoTracesTruthfullyWhatItSignedFalselyContradictsItself) {
  sit("worker", of.worker, {});
  play();
  expect_worker_wrong();
  EXPECT_FALSE(played[0].needs_model);
  EXPECT_NE(played[0].why.find("contradicts"), std::string::npos) << played[0].why;
}

TEST_F(DisputePartyTest, WeightsOfAnotherModelAreTheOneWhoHasThem) {
  model::SyntheticOptions options = disputed_model("llama");
  options.seed += 1;
  const Bytes bytes = model::synthetic_model_bytes(options).value();
  const auto other = model::GgufFile::parse(bytes, "other").value();
  liar = of.with(other);
  ASSERT_TRUE(of.differ(*liar, *of.honest));
  parties["worker"] = std::make_unique<DisputeParty>(of.worker, of.cluster.public_key(),
                                                     [other](LayerRange) { return Result(other); });
  play();
  expect_worker_wrong();
  EXPECT_TRUE(played[0].needs_model) << "they signed different weights";
  parties.clear();
  liar.reset();
}

TEST_F(DisputePartyTest, WhoStallsIsAskedTwiceAndNothingIsShown) {
  tamper = [](const std::string& node, const Move& move) {
    return node != "worker" || !move.has_moved() || move.moved().round() < 3;
  };
  play();
  EXPECT_TRUE(played.empty());
  later(std::chrono::milliseconds(ledger::kMoveMs));
  EXPECT_TRUE(played.empty()) << "it may be the network";
  later(std::chrono::milliseconds(ledger::kMoveMs));
  EXPECT_EQ(why(), "move 3 did not come in time");
}

TEST_F(DisputePartyTest, AMoveThatComesWithTheSecondOrderCounts) {
  bool lost = false;
  tamper = [&lost](const std::string& node, const Move& move) {
    return node != "auditor" || !move.has_moved() || move.moved().round() != 2 ||
           std::exchange(lost, true);
  };
  play();
  EXPECT_TRUE(played.empty());
  later(std::chrono::milliseconds(ledger::kMoveMs));
  expect_worker_wrong();
}

TEST_F(DisputePartyTest, WhatIsNoMoveOfThisRoundChangesNothing) {
  std::vector<Move> earlier;
  tamper = [&](const std::string& node, Move& move) {
    if (!move.has_moved()) return true;
    Move other = move;
    other.set_entry(kEntry + 1);
    desk.take(node, other);
    desk.take("stranger", move);
    other = move;
    other.mutable_moved()->mutable_signature()->back() ^= 1;
    desk.take(node, other);
    other = move;
    other.mutable_moved()->mutable_payload()->resize(ledger::kSentMoveBytes + 1);
    desk.take(node, other);
    // Signed by this side, and said by the other one.
    desk.take(node == "worker" ? "auditor" : "worker", move);
    for (const Move& one : earlier) desk.take(node, one);
    earlier.push_back(move);
    return true;
  };
  play();
  expect_worker_wrong();
}

TEST_F(DisputePartyTest, OversizedMovesAloneAreNone) {
  tamper = [](const std::string& node, Move& move) {
    if (node == "worker" && move.has_moved()) {
      move.mutable_moved()->mutable_payload()->resize(ledger::kSentMoveBytes + 1);
    }
    return true;
  };
  play();
  for (int i = 0; i < 2; ++i) later(std::chrono::milliseconds(ledger::kMoveMs));
  EXPECT_EQ(why(), "move 0 did not come in time");
}

TEST_F(DisputePartyTest, EvidenceThatIsNoneIsAskedOfTheOther) {
  for (const int kind : {0, 1, 2, 3}) {
    played.clear();
    tamper = [kind](const std::string& node, Move& move) {
      if (node != "auditor" || !move.has_shown()) return true;
      control::v1::DisputeShown& shown = *move.mutable_shown();
      if (kind == 0) shown.mutable_part()->back() ^= 1;
      if (kind == 1) shown.set_total(ledger::kSentEvidenceBytes + 1);
      if (kind == 2) shown.clear_part();
      if (kind == 3) move.set_declined("no");
      return true;
    };
    play();
    expect_worker_wrong();
  }
}

TEST_F(DisputePartyTest, AWitnessThatIsSilentIsAskedAgainAndThenTheOther) {
  tamper = [](const std::string&, const Move& move) { return !move.has_shown(); };
  play();
  EXPECT_TRUE(played.empty());
  for (int i = 0; i < 4; ++i) later(DisputeDesk::kPartPatience);
  EXPECT_EQ(why(), "neither side showed its evidence");
}

TEST_F(DisputePartyTest, NothingIsTracedThatWasNotSigned) {
  input.tokens[3] += 1;
  play();
  EXPECT_NE(why().find("node worker declines: the run had other tokens"), std::string::npos)
      << why();
  played.clear();
  input = of.input;
  input.salt = {};
  play();
  EXPECT_NE(why().find("another salt"), std::string::npos) << why();
  played.clear();
  input = of.input;
  input.tokens.pop_back();
  play();
  EXPECT_NE(why().find("had 8 positions"), std::string::npos) << why();
}

TEST_F(DisputePartyTest, RowsThatWereNotInTheReceiptAreNotTraced) {
  const Disputed behind(disputed_model("llama"), {1, 3});
  const auto wrong = behind.liar([](std::uint32_t, const TraceSlot&, Bytes&) {});
  DisputeParty party(behind.worker, behind.cluster.public_key(),
                     [&](LayerRange) { return Result(behind.file); });
  ledger::DisputeFile file;
  file.said = behind.case_of(*wrong, *wrong);
  DisputeOrder order;
  order.set_entry(kEntry);
  order.mutable_begin()->set_said(to_field(ledger::write_dispute(file).value()));
  order.mutable_begin()->set_run(std::string(16, 'r'));
  ASSERT_TRUE(party.begin(order).ok());
  EXPECT_TRUE(party.trace(behind.input, {}).ok());
  ASSERT_TRUE(party.begin(order).ok());
  TraceInput other = behind.input;
  other.rows[4][0] ^= std::byte{1};
  const Status traced = party.trace(other, {});
  ASSERT_FALSE(traced.ok());
  EXPECT_NE(traced.error().message.find("not what the receipts name"), std::string::npos);
  ASSERT_TRUE(party.begin(order).ok());
  const Status stopped = party.trace(behind.input, [] { return true; });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST_F(DisputePartyTest, OnlyASideOfADisputeIsAParty) {
  const auto order = [&](const ledger::DisputeFile& file, std::uint64_t entry = kEntry) {
    DisputeOrder out;
    out.set_entry(entry);
    out.mutable_begin()->set_said(to_field(ledger::write_dispute(file).value()));
    out.mutable_begin()->set_run(std::string(16, 'r'));
    return out;
  };
  ledger::DisputeFile file;
  file.said = of.case_of(*liar, *of.honest);
  DisputeParty& worker = *parties.at("worker");
  EXPECT_TRUE(worker.begin(order(file)).ok());
  EXPECT_FALSE(worker.begin(order(file, kEntry + 1)).ok()) << "of another entry";
  const auto party = [&](const SecretKey& key, const PublicKey& cluster) {
    return DisputeParty(key, cluster, [&](LayerRange) { return Result(of.file); });
  };
  EXPECT_FALSE(party(dispute_key(9), of.cluster.public_key()).begin(order(file)).ok());
  EXPECT_FALSE(party(of.worker, dispute_key(9).public_key()).begin(order(file)).ok());
  EXPECT_FALSE(DisputeParty(of.worker, of.cluster.public_key(), {}).begin(order(file)).ok());
  ledger::DisputeFile moved = of.play(*liar, *of.honest, 1);
  EXPECT_FALSE(worker.begin(order(moved)).ok()) << "a game that is over";
  DisputeOrder nameless = order(file);
  nameless.mutable_begin()->set_run("r");
  EXPECT_FALSE(worker.begin(nameless).ok());
  ASSERT_TRUE(worker.begin(order(file)).ok());
  DisputeOrder early;
  early.set_entry(kEntry);
  early.mutable_play();
  EXPECT_FALSE(worker.move(early).ok()) << "nothing is traced yet";
}

TEST_F(DisputePartyTest, AGameEndsWithItsPipelineAndWithItsNodes) {
  tamper = [](const std::string&, const Move& move) { return !move.traced(); };
  play();
  ASSERT_EQ(runs.size(), 2U);
  coordinator::ReceiptRequest over;
  over.order = runs[1].order;
  over.epoch = Epoch(3);
  desk.over(over);
  pump();
  EXPECT_TRUE(played.empty()) << "that is what was to be";
  over.epoch = Epoch(4);
  desk.over(over);
  pump();
  EXPECT_EQ(why(), "a pipeline of the two was lost");
  EXPECT_TRUE(desk.is_run(over.order.request)) << "and makes no receipts";
  played.clear();
  play();
  desk.lose("stranger");
  desk.lose("auditor");
  pump();
  EXPECT_EQ(why(), "node auditor is lost");
  played.clear();
  play();
  desk.give_up(runs.back().order.request, "no room");
  pump();
  EXPECT_NE(why().find("no room"), std::string::npos);
  played.clear();
  play();
  later(DisputeDesk::kTracePatience);
  EXPECT_EQ(why(), "node worker and node auditor did not trace it in time");
}

TEST_F(DisputePartyTest, WhoDoesNotAnswerIsNotWaitedForForEver) {
  tamper = [](const std::string& node, const Move&) { return node != "auditor"; };
  play();
  later(DisputeDesk::kKeepPatience);
  EXPECT_EQ(why(), "node auditor did not answer");
}

TEST_F(DisputePartyTest, OneGameAtATimeAndFewWait) {
  EXPECT_EQ(desk.begin(table()), std::nullopt);
  for (std::size_t i = 0; i < DisputeDesk::kWaiting; ++i) {
    EXPECT_EQ(desk.begin(table()), std::nullopt);
  }
  EXPECT_NE(desk.begin(table()), std::nullopt);
  pump();
  EXPECT_EQ(played.size(), 1 + DisputeDesk::kWaiting);
  for (const DisputePlayed& one : played) EXPECT_TRUE(one.decided) << one.why;
}

TEST_F(DisputePartyTest, WhatCannotBePlayedSaysWhy) {
  coordinator::DisputeTable none = table();
  none.sides[1].node.clear();
  EXPECT_NE(desk.begin(none), std::nullopt) << "not connected";
  none = table();
  none.said.opened_root.bytes[0] ^= std::byte{1};
  EXPECT_NE(desk.begin(none), std::nullopt) << "not what was sealed";
  none = table();
  none.said.receipts.clear();
  EXPECT_NE(desk.begin(none), std::nullopt);
  DisputeDesk without(clock);
  EXPECT_EQ(without.begin(table()), "this server plays none");
}

}  // namespace
}  // namespace hearth::node

#include "coordinator/proof/verdict_desk.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "coordinator/proof/kept_verdict.h"
#include "tests/unit/coordinator/proof/audit_log.h"
#include "tests/unit/coordinator/proof/true_finding.h"
#include "tests/unit/ledger/small_shape.h"

namespace hearth::coordinator {
namespace {

using testing::finding_of;
using testing::kTruth;
using testing::ReceiptStage;

constexpr std::size_t kReceipt = 5;
constexpr std::size_t kDeskVerdict = 8;

struct VerdictDeskTest : ::testing::Test, testing::AuditLog {
  VerdictDeskTest() {
    for (auto* list : {&stages, &others}) {
      for (const ReceiptStage& one : *list) audits->verdicts().meet(one.node, one.key());
    }
  }
  void liars(std::vector<ReceiptStage>& pipeline, const std::string& boundary = "one unit off") {
    for (ReceiptStage& stage : pipeline) stage.boundary = boundary;
  }
  // The first stage of one pipeline lies, and the other one audits it.
  void dispute(unsigned char number = 1) {
    answer(request(number));
    compute(runs.back());
    runs.clear();
  }
  void referee(const std::vector<TokenId>& sampled = {6, 7}) {
    for (VerdictDesk::Ask& ask : audits->verdicts().take_asks()) {
      cases.push_back(ask.request);
      audits->verdicts().found(ask.entry, finding_of(ask.request, sampled));
    }
    pump();
  }
  // The accused's pipeline computes it once more.
  void compute_on(std::vector<ReceiptStage>& pipeline, Epoch epoch,
                  std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7}) {
    ASSERT_EQ(runs.size(), 1u);
    ReceiptRequest again = computed(runs[0], std::move(tokens));
    again.epoch = epoch;
    runs.clear();
    for (ReceiptStage& stage : pipeline) audits->take(stage.node, stage.claim(again));
    audits->over(again);
    pump();
  }
  const AuditDesk::Message* last(const std::function<bool(const AuditDesk::Message&)>& is) const {
    const auto found = std::find_if(asked.rbegin(), asked.rend(), is);
    return found == asked.rend() ? nullptr : &*found;
  }
  std::string accused() const {
    const auto* message =
        last([](const AuditDesk::Message& one) { return one.body.has_accusation(); });
    return message == nullptr ? "" : message->node;
  }
  std::size_t accusations() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        asked, [](const AuditDesk::Message& one) { return one.body.has_accusation(); }));
  }
  control::v1::Answer plead(const std::string& node, ledger::Plea plea, bool weights_whole = true) {
    const auto* message =
        last([](const AuditDesk::Message& one) { return one.body.has_accusation(); });
    return stage(node).plead(message->body.accusation().entry(), plea, weights_whole);
  }
  void say(const std::string& node, ledger::Plea plea, bool weights_whole = true) {
    audits->verdicts().take(node, plead(node, plea, weights_whole));
    pump();
  }
  ledger::VerdictEntry verdict() const {
    for (auto at = entries.rbegin(); at != entries.rend(); ++at) {
      const ledger::Entry entry = *ledger::parse_entry(*at);
      if (const auto* one = std::get_if<ledger::VerdictEntry>(&entry.body)) return *one;
    }
    return {};
  }
  void check(const std::string& node, bool whole) {
    const auto* message =
        last([](const AuditDesk::Message& one) { return one.body.has_self_check(); });
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->node, node);
    control::v1::SelfChecked found;
    found.set_number(message->body.self_check().number());
    found.set_weights_whole(whole);
    found.set_self_test_passed(true);
    audits->verdicts().take(node, found);
  }
  std::string why(const std::string& node) {
    return audits->verdicts().why_barred(stage(node).key());
  }

  std::vector<RefereeCase> cases;
};

TEST_F(VerdictDeskTest, WhatComesAgainIsFraudAndEndsItsKey) {
  liars(stages);
  dispute();
  ASSERT_EQ(books.disputes().size(), 1u);
  referee();
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].answer, (std::vector<TokenId>{6, 7})) << "as it was claimed";
  EXPECT_EQ(accusations(), 0u) << "nobody is told before the window was computed again";
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].nodes, (std::vector<std::string>{"a", "b"}));
  compute_on(stages, Epoch(4));
  EXPECT_EQ(accused(), "a");
  say("a", ledger::Plea::kConceded);
  EXPECT_EQ(of_kind(kDeskVerdict), 1u);
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFraud);
  EXPECT_EQ(verdict().guilty, stages[0].key());
  ASSERT_EQ(evidence.size(), 1u);
  EXPECT_EQ(verdict().evidence, blake2b(evidence[0]));
  EXPECT_TRUE(books.disputes().empty());
  EXPECT_TRUE(books.standing(stages[0].key())->is_tombstoned());
  EXPECT_FALSE(books.standing(others[0].key())->is_tombstoned());
  EXPECT_NE(why("a"), "");
  EXPECT_EQ(why("b"), "");
  EXPECT_NE(last([](const auto& one) { return one.body.has_ended(); }), nullptr);
  // What it computes in the meantime is in no log, which its neighbour's receipts are.
  const std::uint64_t receipts = of_kind(kReceipt);
  answer(request(2));
  EXPECT_EQ(of_kind(kReceipt), receipts + 1);
}

TEST_F(VerdictDeskTest, WhatDoesNotComeAgainIsAFaultAndTheNodeComesBack) {
  stages[0].boundary = stages[1].boundary = "one bit";
  dispute();
  referee();
  liars(stages, kTruth);
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kConceded);
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFault);
  EXPECT_EQ(books.standing(stages[0].key())->faults(books.policy(), books.time()), 1);
  EXPECT_NE(why("a"), "") << "until it has looked at itself";
  check("a", false);
  EXPECT_NE(why("a"), "");
  later(VerdictDesk::kPatience);
  check("a", true);
  EXPECT_EQ(why("a"), "");
}

TEST_F(VerdictDeskTest, WhomFaultsMadeANewcomerMayCheckLikeEveryNewcomer) {
  for (unsigned char i = 1; i <= books.policy().fault_limit; ++i) {
    liars(stages, "one bit");
    later(AuditDesk::kDrawPause);
    dispute(i);
    referee();
    liars(stages, kTruth);
    compute_on(stages, Epoch(4));
    say("a", ledger::Plea::kConceded);
    check("a", true);
    desk->unbar(stages[0].key());  // as Receipts does
  }
  EXPECT_EQ(books.standing(stages[0].key())->level(books.policy(), books.time()),
            ledger::Level::kNewcomer);
  EXPECT_EQ(why("a"), "");
}

TEST_F(VerdictDeskTest, AStuckBitIsAFaultHoweverOftenItComes) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kConceded, false);
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFault);
}

TEST_F(VerdictDeskTest, WhoContestsAgainstExactArithmeticLoses) {
  liars(stages);
  dispute();
  referee();
  liars(stages, kTruth);
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kContested);
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFraud);
}

TEST_F(VerdictDeskTest, AnAuditorThatLiesIsTheGuiltyOne) {
  liars(others);
  dispute();
  referee();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].nodes, (std::vector<std::string>{"c", "d"}));
  compute_on(others, Epoch(5));
  EXPECT_EQ(accused(), "c");
  say("c", ledger::Plea::kConceded);
  EXPECT_EQ(verdict().guilty, others[0].key());
  EXPECT_TRUE(books.standing(others[0].key())->is_tombstoned());
  EXPECT_EQ(books.standing(stages[0].key())->faults(books.policy(), books.time()), 0);
}

TEST_F(VerdictDeskTest, SilenceIsAFaultAndALostNodeIsWaitedFor) {
  liars(stages);
  dispute();
  referee();
  liars(stages, kTruth);
  compute_on(stages, Epoch(4));
  EXPECT_EQ(accusations(), 1u);
  audits->verdicts().lose("a");
  for (int i = 0; i < 5; ++i) later(VerdictDesk::kPatience);
  EXPECT_EQ(of_kind(kDeskVerdict), 0u) << "a lost machine is none of the verdicts";
  audits->verdicts().meet("a", stages[0].key());
  pump();
  EXPECT_EQ(accusations(), 2u) << "it hears of it when it is back";
  later(VerdictDesk::kPatience);
  ASSERT_EQ(of_kind(kDeskVerdict), 1u);
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFault);
}

TEST_F(VerdictDeskTest, OnlyTheAccusedAnswersAndOnlyOnce) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  const control::v1::Answer own = plead("a", ledger::Plea::kConceded);
  control::v1::Answer forged = own;
  forged.set_plea(static_cast<std::uint32_t>(ledger::Plea::kContested));
  audits->verdicts().take("a", forged);
  audits->verdicts().take("b", own);
  audits->verdicts().take("nobody", own);
  control::v1::Answer none = own;
  none.set_plea(0);
  audits->verdicts().take("a", none);
  none = own;
  none.set_trace(std::string(ledger::kTraceBytes + 1, 'x'));
  audits->verdicts().take("a", none);
  pump();
  EXPECT_EQ(of_kind(kDeskVerdict), 0u);
  audits->verdicts().take("a", own);
  audits->verdicts().take("a", own);
  pump();
  EXPECT_EQ(of_kind(kDeskVerdict), 1u);
}

TEST_F(VerdictDeskTest, WithoutARefereeItStaysOpen) {
  liars(stages);
  dispute();
  for (const VerdictDesk::Ask& ask : audits->verdicts().take_asks()) {
    audits->verdicts().found(ask.entry, Error{ErrorCode::kUnavailable, "no copy"});
  }
  pump();
  EXPECT_EQ(of_kind(kDeskVerdict), 0u);
  EXPECT_EQ(books.disputes().size(), 1u);
  EXPECT_EQ(audits->verdicts().open(), 0u);
}

TEST_F(VerdictDeskTest, ARefereeThatAgreesWithNobodyIsAskedTwice) {
  liars(stages);
  liars(others, "something else");
  dispute();
  referee();
  EXPECT_TRUE(runs.empty());
  referee();
  ASSERT_EQ(runs.size(), 1u) << "the worker's answer was given away";
  EXPECT_EQ(runs[0].nodes, (std::vector<std::string>{"a", "b"}));
}

TEST_F(VerdictDeskTest, WhoSampledOtherwiseIsFoundByTheModelsOwnTokens) {
  answer(request(1));
  compute(runs.at(0), {1, 2, 3, 4, 5, 9, 7});
  compute(runs.at(1));
  runs.clear();
  ASSERT_EQ(books.disputes().size(), 1u);
  referee({9, 7});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].nodes, (std::vector<std::string>{"a", "b"})) << "the model samples 9";
  std::vector<AuditOutcome> outcomes = audits->take_outcomes();
  ASSERT_FALSE(outcomes.empty());
  EXPECT_EQ(outcomes.back().kind, AuditOutcome::Kind::kFalse);
  EXPECT_EQ(outcomes.back().answer, (std::vector<TokenId>{9, 7}));
  compute_on(stages, Epoch(4));
  EXPECT_EQ(accused(), "b");
  say("b", ledger::Plea::kConceded);
  EXPECT_EQ(verdict().guilty, stages[1].key());
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFraud);
}

TEST_F(VerdictDeskTest, AnHonestLastStageIsNotBlamedForALieFurtherUp) {
  answer(request(1));
  // The auditing first stage lies while it generates, and other tokens come of it.
  others[0].boundary = others[1].boundary = "moved";
  compute(runs.at(0), {1, 2, 3, 4, 5, 9, 7});
  liars(others, kTruth);
  compute(runs.at(1));
  runs.clear();
  ASSERT_EQ(books.disputes().size(), 1u);
  referee();
  referee({9, 7});  // the auditor's tokens: what passed between its stages was not this
  EXPECT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[1].answer, (std::vector<TokenId>{9, 7}));
  EXPECT_TRUE(runs.empty());
  EXPECT_EQ(of_kind(kDeskVerdict), 0u);
  EXPECT_EQ(books.disputes().size(), 1u) << "it stays open";
  EXPECT_EQ(audits->verdicts().open(), 0u);
}

// --- what an earlier process has left ---

struct VerdictLeftTest : VerdictDeskTest {
  // An accusation of a liar whose verdict is on its way, and the evidence that is on the disk.
  Bytes accused_and_gone() {
    liars(stages);
    dispute();
    referee();
    compute_on(stages, Epoch(4));
    audits->verdicts().take("a", plead("a", ledger::Plea::kConceded));
    return audits->take_entries().at(0).evidence;
  }
  void start_again(const std::vector<Bytes>& kept) {
    open(AuditMode::kSpot);
    audits->verdicts().take_up(kept);
    pump();
  }
  // Evidence with something else in place of the value of a line.
  static Bytes with(const Bytes& evidence, const std::string& name, const std::string& value) {
    std::string text(as_text(evidence));
    const std::size_t at = text.find("\n" + name + " ") + name.size() + 2;
    text.replace(at, text.find('\n', at) - at, value);
    const ByteSpan bytes = as_bytes(text);
    return Bytes(bytes.begin(), bytes.end());
  }
};

TEST_F(VerdictLeftTest, ADisputeThatWasOpenEndsUnjudged) {
  liars(stages);
  dispute();
  start_again({});
  EXPECT_EQ(of_kind(kDeskVerdict), 1u);
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kUnjudged);
  EXPECT_EQ(verdict().guilty, PublicKey());
  EXPECT_EQ(verdict().evidence, blake2b(evidence.at(0)));
  EXPECT_TRUE(books.disputes().empty());
  EXPECT_EQ(books.unjudged(stages[0].key()), 1u);
  EXPECT_EQ(books.unjudged(others[0].key()), 1u);
  EXPECT_EQ(audits->status().unjudged_disputes, 1u);
  EXPECT_EQ(audits->status().ended_disputes, 0u) << "by a verdict";
  EXPECT_EQ(audits->status().open_disputes, 0u);
  EXPECT_TRUE(audits->verdicts().barred().empty()) << "it is nobody's fault";
  // It ends once, and what is in dispute from now on is judged.
  start_again({});
  EXPECT_EQ(of_kind(kDeskVerdict), 1u);
  dispute(2);
  EXPECT_EQ(books.disputes().size(), 1u);
}

TEST_F(VerdictLeftTest, AVerdictWhoseEvidenceWasKeptIsPronounced) {
  const Bytes kept = accused_and_gone();
  start_again({{}, Bytes(3), with(kept, "entry", "1"), kept});
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFraud);
  EXPECT_EQ(verdict().guilty, stages[0].key());
  EXPECT_EQ(verdict().evidence, blake2b(kept));
  EXPECT_EQ(of_kind(kDeskVerdict), 1u);
  EXPECT_TRUE(books.standing(stages[0].key())->is_tombstoned());
  EXPECT_NE(why("a"), "");
  EXPECT_EQ(why("c"), "");
}

TEST_F(VerdictLeftTest, AFaultThatWasKeptHasToLookAtItself) {
  start_again({with(accused_and_gone(), "verdict", "fault")});
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFault);
  EXPECT_NE(why("a"), "");
  audits->verdicts().meet("a", stages[0].key());
  pump();
  check("a", true);
  EXPECT_EQ(why("a"), "");
}

TEST_F(VerdictLeftTest, EvidenceOfAnythingElseIsPassedOver) {
  const Bytes kept = accused_and_gone();
  const std::string stranger = testing::receipt_key(99).public_key().hex();
  const std::string other = to_hex(std::array<std::byte, ledger::kReceiptBytes>());
  EXPECT_TRUE(verdict_in(kept, books));
  for (const auto& [name, value] : {std::pair<std::string, std::string>{"entry", "1"},
                                    {"entry", ""},
                                    {"entry", "-1"},
                                    {"entry", "1000000"},
                                    {"cluster", stranger},
                                    {"receipt", "zz"},
                                    {"receipt", other},
                                    {"guilty", stranger},
                                    {"guilty", ""},
                                    {"verdict", "unjudged"},
                                    {"verdict", "guilty"}}) {
    EXPECT_FALSE(verdict_in(with(kept, name, value), books)) << name << " " << value;
  }
  for (std::size_t size = 0; size + 1 < kept.size(); ++size) {
    EXPECT_FALSE(verdict_in(ByteSpan(kept).first(size), books)) << size;
  }
  EXPECT_FALSE(verdict_in(unjudged_evidence(books.disputes().front(), books), books));
}

// --- the game of the two ---

// Whoever says something else than it signed; who is wrong, the test says.
struct VerdictGameTest : VerdictDeskTest {
  void tools(std::array<bool, ledger::kDisputeSides> wrong, bool decided = true) {
    DisputeTools tools;
    tools.shape = [](LayerRange layers, std::uint32_t prompt) {
      return Result(testing::small_shape(layers, prompt));
    };
    tools.check = [wrong, decided](const ledger::DisputeFile& file, bool with_model) {
      EXPECT_EQ(file.moves.size(), 1u);
      return Result(DisputeTools::Found{decided, wrong, with_model ? "as the test says" : ""});
    };
    audits->verdicts().set_disputes(std::move(tools));
  }
  void say(const std::string& node, control::v1::DisputeMove move) {
    move.set_entry(entry());
    audits->verdicts().take(node, move);
    pump();
  }
  std::uint64_t entry() const { return books.disputes().at(0); }
  // The referee finds the worker false; both keep and trace.
  void traced() {
    liars(stages);
    dispute();
    referee();
    compute_on(stages, Epoch(4));
    control::v1::DisputeMove move;
    move.set_keeps(true);
    for (const char* node : {"a", "c"}) say(node, move);
    EXPECT_EQ(runs.size(), 2u) << "a run on either pipeline";
    move.set_traced(true);
    for (const char* node : {"a", "c"}) say(node, move);
  }
  // Its first move has no hash of what it signed.
  void contradict(const std::string& node, unsigned char key) {
    ledger::DisputeCase said;
    const auto* begin = last([](const AuditDesk::Message& one) {
      return one.body.has_dispute() && one.body.dispute().has_begin();
    });
    ASSERT_NE(begin, nullptr);
    const auto file = ledger::parse_dispute(as_bytes(begin->body.dispute().begin().said()));
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto of = ledger::check_case(file->said);
    ASSERT_TRUE(of.ok()) << of.error().message;
    const auto side = node == "a" ? ledger::DisputeSide::kWorker : ledger::DisputeSide::kAuditor;
    const auto signed_move =
        ledger::sign_move(of->id, 0, side, Bytes(3), testing::receipt_key(key));
    control::v1::DisputeMove move;
    move.mutable_moved()->set_payload(to_field(signed_move->payload));
    move.mutable_moved()->set_signature(to_field(signed_move->signature));
    say(node, move);
  }
};

TEST_F(VerdictGameTest, ItsFileIsNamedByTheEvidenceOfTheVerdict) {
  tools({true, false});
  traced();
  EXPECT_EQ(accusations(), 0u) << "the game comes first";
  contradict("a", 10);
  EXPECT_EQ(accused(), "a");
  VerdictDeskTest::say("a", ledger::Plea::kConceded);
  ASSERT_EQ(evidence.size(), 1u);
  ASSERT_EQ(disputes.size(), 1u);
  const std::string text(as_text(evidence[0]));
  EXPECT_NE(text.find("\ngame as the test says\ndispute " + blake2b(disputes[0]).hex() + "\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(ledger::parse_dispute(disputes[0]).ok());
}

TEST_F(VerdictGameTest, WhereItFindsTheOtherOneNobodyIsJudged) {
  tools({false, true});
  traced();
  contradict("c", 12);
  EXPECT_EQ(accusations(), 0u);
  EXPECT_EQ(of_kind(kDeskVerdict), 0u);
  EXPECT_EQ(books.disputes().size(), 1u) << "it stays open";
  EXPECT_EQ(audits->verdicts().open(), 0u);
}

TEST_F(VerdictGameTest, WhatItDoesNotDecideTheRefereeSaysAndWhyIsInTheEvidence) {
  tools({}, false);
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  control::v1::DisputeMove move;
  move.set_declined("I have\nno room");
  say("a", move);
  EXPECT_EQ(accused(), "a");
  VerdictDeskTest::say("a", ledger::Plea::kConceded);
  ASSERT_EQ(evidence.size(), 1u);
  EXPECT_TRUE(disputes.empty());
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFraud);
  const std::string text(as_text(evidence[0]));
  EXPECT_NE(text.find("\ngame node a declines: I have?no room\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("\ndispute "), std::string::npos);
}

TEST_F(VerdictGameTest, ANodeThatIsLostEndsIt) {
  tools({true, false});
  traced();
  audits->verdicts().lose("c");
  pump();
  EXPECT_EQ(accused(), "a");
}

TEST_F(VerdictDeskTest, ASecondDisputeOfAnEndedKeyHasAnEndToo) {
  liars(stages);
  dispute(1);
  later(AuditDesk::kDrawPause);
  dispute(2);
  ASSERT_EQ(books.disputes().size(), 2u);
  referee();
  for (int i = 0; i < 2; ++i) {
    compute_on(stages, Epoch(4));
    say("a", ledger::Plea::kConceded);
    referee();
  }
  EXPECT_EQ(of_kind(kDeskVerdict), 2u);
  EXPECT_TRUE(books.disputes().empty());
}

TEST_F(VerdictDeskTest, WhoWasAtFaultBeforeARestartLooksAtItselfAgain) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kConceded, false);
  open(AuditMode::kOff);  // also where nothing is audited any more
  EXPECT_NE(why("a"), "");
  audits->verdicts().meet("a", stages[0].key());
  asked = audits->take_messages();
  check("a", true);
  EXPECT_EQ(why("a"), "");
}

TEST_F(VerdictDeskTest, AFraudIsKnownAfterARestart) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kContested);
  open(AuditMode::kOff);
  EXPECT_TRUE(audits->verdicts().is_ended(stages[0].key()));
  EXPECT_EQ(audits->verdicts().barred().size(), 1u);
}

}  // namespace
}  // namespace hearth::coordinator

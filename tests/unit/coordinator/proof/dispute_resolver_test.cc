#include "coordinator/proof/dispute_resolver.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "ledger/dispute/evidence.h"
#include "tests/unit/coordinator/proof/audit_log.h"
#include "tests/unit/coordinator/proof/true_finding.h"

namespace hearth::coordinator {
namespace {

using testing::finding_of;
using testing::kTruth;
using testing::ReceiptStage;

constexpr std::size_t kReceipt = 5;
constexpr std::size_t kDeskVerdict = 8;

struct DisputeResolverTest : ::testing::Test, testing::AuditLog {
  DisputeResolverTest() {
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
    for (DisputeResolver::Ask& ask : audits->verdicts().take_asks()) {
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
  const Auditor::Message* last(const std::function<bool(const Auditor::Message&)>& is) const {
    const auto found = std::find_if(asked.rbegin(), asked.rend(), is);
    return found == asked.rend() ? nullptr : &*found;
  }
  std::string accused() const {
    const auto* message =
        last([](const Auditor::Message& one) { return one.body.has_accusation(); });
    return message == nullptr ? "" : message->node;
  }
  std::size_t accusations() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        asked, [](const Auditor::Message& one) { return one.body.has_accusation(); }));
  }
  control::v1::Answer plead(const std::string& node, ledger::Plea plea, bool weights_whole = true) {
    const auto* message =
        last([](const Auditor::Message& one) { return one.body.has_accusation(); });
    return stage(node).plead(message->body.accusation().entry(), plea, weights_whole);
  }
  void say(const std::string& node, ledger::Plea plea, bool weights_whole = true) {
    audits->verdicts().on_answer(node, plead(node, plea, weights_whole));
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
        last([](const Auditor::Message& one) { return one.body.has_self_check(); });
    ASSERT_NE(message, nullptr);
    EXPECT_EQ(message->node, node);
    control::v1::SelfChecked found;
    found.set_number(message->body.self_check().number());
    found.set_weights_whole(whole);
    found.set_self_test_passed(true);
    audits->verdicts().keys().on_self_checked(node, found);
  }
  std::string why(const std::string& node) {
    return audits->verdicts().keys().why_barred(stage(node).key());
  }

  std::vector<ledger::RefereeCase> cases;
};

TEST_F(DisputeResolverTest, WhatComesAgainIsFraudAndEndsItsKey) {
  liars(stages);
  dispute();
  ASSERT_EQ(books.disputes().size(), 1u);
  referee();
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].answer, (std::vector<TokenId>{6, 7})) << "as it was claimed";
  EXPECT_EQ(accusations(), 0u) << "no node is told before the window was computed again";
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].nodes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(runs[0].cache, CacheScope::kOff) << "a kept page would make fraud of a fault";
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

TEST_F(DisputeResolverTest, WhatDoesNotComeAgainIsAFaultAndTheNodeComesBack) {
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
  later(DisputeResolver::kPatience);
  check("a", true);
  EXPECT_EQ(why("a"), "");
}

TEST_F(DisputeResolverTest, WhomFaultsMadeANewcomerMayCheckLikeEveryNewcomer) {
  for (unsigned char i = 1; i <= books.policy().fault_limit; ++i) {
    liars(stages, "one bit");
    later(Auditor::kDrawPause);
    dispute(i);
    referee();
    liars(stages, kTruth);
    compute_on(stages, Epoch(4));
    say("a", ledger::Plea::kConceded);
    check("a", true);
    desk->unbar(stages[0].key());  // as LedgerService does
  }
  EXPECT_EQ(books.standing(stages[0].key())->level(books.policy(), books.time()),
            ledger::Level::kNewcomer);
  EXPECT_EQ(why("a"), "");
}

TEST_F(DisputeResolverTest, AStuckBitIsAFaultHoweverOftenItComes) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kConceded, false);
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFault);
}

TEST_F(DisputeResolverTest, WhoContestsAgainstExactArithmeticLoses) {
  liars(stages);
  dispute();
  referee();
  liars(stages, kTruth);
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kContested);
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFraud);
}

TEST_F(DisputeResolverTest, AnAuditorThatLiesIsTheGuiltyOne) {
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

TEST_F(DisputeResolverTest, SilenceIsAFaultAndALostNodeIsWaitedFor) {
  liars(stages);
  dispute();
  referee();
  liars(stages, kTruth);
  compute_on(stages, Epoch(4));
  EXPECT_EQ(accusations(), 1u);
  audits->verdicts().lose("a");
  for (int i = 0; i < 5; ++i) later(DisputeResolver::kPatience);
  EXPECT_EQ(of_kind(kDeskVerdict), 0u) << "a lost machine is not a verdict";
  audits->verdicts().meet("a", stages[0].key());
  pump();
  EXPECT_EQ(accusations(), 2u) << "it hears of it when it is back";
  later(DisputeResolver::kPatience);
  ASSERT_EQ(of_kind(kDeskVerdict), 1u);
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFault);
}

TEST_F(DisputeResolverTest, OnlyTheAccusedAnswersAndOnlyOnce) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  const control::v1::Answer own = plead("a", ledger::Plea::kConceded);
  control::v1::Answer forged = own;
  forged.set_plea(static_cast<std::uint32_t>(ledger::Plea::kContested));
  audits->verdicts().on_answer("a", forged);
  audits->verdicts().on_answer("b", own);
  audits->verdicts().on_answer("unknown", own);
  control::v1::Answer none = own;
  none.set_plea(0);
  audits->verdicts().on_answer("a", none);
  pump();
  EXPECT_EQ(of_kind(kDeskVerdict), 0u);
  audits->verdicts().on_answer("a", own);
  audits->verdicts().on_answer("a", own);
  pump();
  EXPECT_EQ(of_kind(kDeskVerdict), 1u);
}

TEST_F(DisputeResolverTest, WithoutARefereeItStaysOpen) {
  liars(stages);
  dispute();
  for (const DisputeResolver::Ask& ask : audits->verdicts().take_asks()) {
    audits->verdicts().found(ask.entry, Error{ErrorCode::kUnavailable, "no copy"});
  }
  pump();
  EXPECT_EQ(of_kind(kDeskVerdict), 0u);
  EXPECT_EQ(books.disputes().size(), 1u);
  EXPECT_EQ(audits->verdicts().open(), 0u);
}

TEST_F(DisputeResolverTest, ARefereeThatAgreesWithNobodyIsAskedTwice) {
  liars(stages);
  liars(others, "something else");
  dispute();
  referee();
  EXPECT_TRUE(runs.empty());
  referee();
  ASSERT_EQ(runs.size(), 1u) << "the worker's answer was given away";
  EXPECT_EQ(runs[0].nodes, (std::vector<std::string>{"a", "b"}));
}

TEST_F(DisputeResolverTest, WhoSampledOtherwiseIsFoundByTheModelsOwnTokens) {
  answer(request(1));
  compute(runs.at(0), {1, 2, 3, 4, 5, 9, 7});
  compute(runs.at(1));
  runs.clear();
  ASSERT_EQ(books.disputes().size(), 1u);
  referee({9, 7});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].nodes, (std::vector<std::string>{"a", "b"})) << "the model samples 9";
  std::vector<AuditOutcome> outcomes = take_outcomes();
  ASSERT_FALSE(outcomes.empty());
  EXPECT_EQ(outcomes.back().kind, AuditOutcome::Kind::kFalse);
  EXPECT_EQ(outcomes.back().answer, (std::vector<TokenId>{9, 7}));
  compute_on(stages, Epoch(4));
  EXPECT_EQ(accused(), "b");
  say("b", ledger::Plea::kConceded);
  EXPECT_EQ(verdict().guilty, stages[1].key());
  EXPECT_EQ(verdict().verdict, ledger::Verdict::kFraud);
}

TEST_F(DisputeResolverTest, ARefereeThatCannotFinishTellsTheFirstRightToken) {
  answer(request(1));
  compute(runs.at(0), {1, 2, 3, 4, 5, 9, 7});
  compute(runs.at(1));
  runs.clear();
  for (const DisputeResolver::Ask& ask : audits->verdicts().take_asks()) {
    ledger::RefereeFinding found = finding_of(ask.request, {9, 7});
    found.tokens = {9};
    found.is_cut = true;
    audits->verdicts().found(ask.entry, found);
  }
  pump();
  const std::vector<AuditOutcome> outcomes = take_outcomes();
  ASSERT_FALSE(outcomes.empty());
  EXPECT_EQ(outcomes.back().answer, std::vector<TokenId>{9});
  EXPECT_TRUE(outcomes.back().is_cut) << "from which token on the answer is false is known";
}

TEST_F(DisputeResolverTest, AnHonestLastStageIsNotBlamedForALieFurtherUp) {
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

// --- its evidence ---

struct VerdictEvidenceTest : DisputeResolverTest {
  ledger::VerdictEvidence kept() const {
    auto parsed = ledger::parse_evidence(evidence.at(0));
    EXPECT_TRUE(parsed) << parsed.error().message;
    return parsed ? *parsed : ledger::VerdictEvidence();
  }
  // A repetition from the file alone, by a referee that finds these tokens.
  static Status repeat(const ledger::VerdictEvidence& of, const std::vector<TokenId>& sampled) {
    TRY(const ledger::CheckedEvidence checked, ledger::check_evidence(of));
    std::optional<ledger::RefereeFinding> audited;
    if (checked.audited) audited = finding_of(*checked.audited, checked.audited->answer);
    return ledger::check_ruling(of, checked, finding_of(checked.claimed, sampled),
                                audited ? &*audited : nullptr);
  }
};

TEST_F(VerdictEvidenceTest, AWorkersIsComputedAgainFromItAlone) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kConceded);
  const ledger::VerdictEvidence of = kept();
  EXPECT_EQ(of.guilty, stages[0].key());
  EXPECT_EQ(of.claimed.prompt, (std::vector<TokenId>{1, 2, 3, 4, 5}));
  EXPECT_EQ(of.claimed.answer, (std::vector<TokenId>{6})) << "as far as the window goes";
  EXPECT_EQ(of.receipts.size(), 2u);
  EXPECT_EQ(ledger::write_evidence([&of] {
              ledger::VerdictEvidence whole = of;
              whole.claimed.split = {{0, 2}, {2, 4}};
              return whole;
            }()),
            evidence[0])
      << "it is written as it was read";
  const Status again = repeat(of, {6, 7});
  EXPECT_TRUE(again) << again.error().message;
}

TEST_F(VerdictEvidenceTest, AnAuditorsIsComputedAgainFromItAlone) {
  liars(others);
  dispute();
  referee();
  compute_on(others, Epoch(5));
  say("c", ledger::Plea::kConceded);
  EXPECT_EQ(kept().guilty, others[0].key());
  const Status again = repeat(kept(), {6, 7});
  EXPECT_TRUE(again) << again.error().message;
}

TEST_F(VerdictEvidenceTest, ALastStagesIsJudgedByItsTokens) {
  answer(request(1));
  compute(runs.at(0), {1, 2, 3, 4, 5, 9, 7});
  compute(runs.at(1));
  runs.clear();
  referee({6, 7});
  referee({9, 7});
  ASSERT_EQ(runs.size(), 1u) << "the auditor sampled otherwise";
  compute_on(others, Epoch(5), {1, 2, 3, 4, 5, 9, 7});
  say("d", ledger::Plea::kConceded);
  const ledger::VerdictEvidence of = kept();
  EXPECT_EQ(of.guilty, others[1].key());
  EXPECT_EQ(of.auditor_answer, (std::vector<TokenId>{9}));
  const Status again = repeat(of, {6, 7});
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_FALSE(repeat(of, {9, 7})) << "then the worker would be the false one";
}

TEST_F(VerdictEvidenceTest, WhatIsChangedInItProvesNothing) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kConceded);
  const ledger::VerdictEvidence of = kept();
  const auto refused = [&of](const auto& change) {
    ledger::VerdictEvidence other = of;
    change(other);
    return !repeat(other, {6, 7});
  };
  using Evidence = ledger::VerdictEvidence;
  EXPECT_TRUE(refused([](Evidence& one) { one.claimed.prompt[2] = 9; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.claimed.answer = {}; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.claimed.sampling.seed = 4; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.claimed.salt = {}; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.receipts[0][70] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.receipts.pop_back(); }));
  EXPECT_TRUE(refused([](Evidence& one) { std::swap(one.receipts[0], one.receipts[1]); }));
  EXPECT_TRUE(refused([](Evidence& one) { one.auditor_root.bytes[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.seal.signature[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.answer->signature[0] ^= std::byte{1}; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.verdict = ledger::Verdict::kFault; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.place.stage = 1; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.guilty = one.seal.auditor; }));
  EXPECT_TRUE(refused([](Evidence& one) { one.cluster = one.guilty; }));
  EXPECT_FALSE(refused([](Evidence&) {}));
  for (std::size_t size = 0; size < evidence[0].size(); size += 7) {
    const auto cut = ledger::parse_evidence(ByteSpan(evidence[0]).first(size));
    EXPECT_TRUE(!cut || !repeat(*cut, {6, 7})) << size;
  }
}

// --- what an earlier process has left ---

struct VerdictLeftTest : DisputeResolverTest {
  // An accusation of a liar whose verdict is on its way, and the evidence that is on the disk.
  Bytes accused_and_gone() {
    liars(stages);
    dispute();
    referee();
    compute_on(stages, Epoch(4));
    audits->verdicts().on_answer("a", plead("a", ledger::Plea::kConceded));
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
  EXPECT_TRUE(audits->verdicts().keys().barred().empty()) << "no key is at fault";
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
  EXPECT_TRUE(ledger::verdict_in(kept, books));
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
    EXPECT_FALSE(ledger::verdict_in(with(kept, name, value), books)) << name << " " << value;
  }
  for (std::size_t size = 0; size + 1 < kept.size(); ++size) {
    EXPECT_FALSE(ledger::verdict_in(ByteSpan(kept).first(size), books)) << size;
  }
  EXPECT_FALSE(
      ledger::verdict_in(ledger::unjudged_evidence(books.disputes().front(), books), books));
}

TEST_F(DisputeResolverTest, ASecondDisputeOfAnEndedKeyHasAnEndToo) {
  liars(stages);
  dispute(1);
  later(Auditor::kDrawPause);
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

TEST_F(DisputeResolverTest, WhoWasAtFaultBeforeARestartLooksAtItselfAgain) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kConceded, false);
  open(AuditMode::kOff);  // also where nothing is audited any more
  EXPECT_NE(why("a"), "");
  audits->verdicts().meet("a", stages[0].key());
  asked = audits->take_output().messages;
  check("a", true);
  EXPECT_EQ(why("a"), "");
}

TEST_F(DisputeResolverTest, AFraudIsKnownAfterARestart) {
  liars(stages);
  dispute();
  referee();
  compute_on(stages, Epoch(4));
  say("a", ledger::Plea::kContested);
  open(AuditMode::kOff);
  EXPECT_TRUE(audits->verdicts().keys().is_ended(stages[0].key()));
  EXPECT_EQ(audits->verdicts().keys().barred().size(), 1u);
}

}  // namespace
}  // namespace hearth::coordinator

#include "coordinator/proof/auditor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "tests/unit/coordinator/proof/audit_log.h"

namespace hearth::coordinator {
namespace {

using testing::ReceiptStage;

struct AuditorTest : ::testing::Test, testing::AuditLog {};

constexpr std::size_t kSeal = 6;
constexpr std::size_t kOpening = 7;
constexpr std::size_t kDrawn = 11;

TEST_F(AuditorTest, WhatIsDrawnIsComputedByOthersSealedAndOpened) {
  const ReceiptRequest one = request(1);
  answer(one);
  ASSERT_EQ(runs.size(), 1u) << "of the first windows all are drawn";
  const AuditRun& run = runs[0];
  EXPECT_EQ(run.nodes, (std::vector<std::string>{"c", "d"}));
  EXPECT_NE(run.order.request, one.order.request) << "no node can tell that it is an audit";
  EXPECT_EQ(run.order.salt, one.order.salt);
  EXPECT_EQ(run.prompt, (std::vector<TokenId>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(run.answer.empty()) << "and it is not told what was sampled";
  EXPECT_EQ(run.sampling, one.sampling);
  EXPECT_EQ(run.cache, one.policy.cache);
  EXPECT_EQ(run.cache_owner, one.policy.owner);
  EXPECT_EQ(of_kind(kDrawn), 1u);
  EXPECT_TRUE(asked.empty());
  compute(run);
  EXPECT_EQ(of_kind(kSeal), 2u);
  EXPECT_EQ(of_kind(kOpening), 2u);
  ASSERT_EQ(asked.size(), 4u) << "both are asked to seal, then both to open";
  EXPECT_TRUE(asked[0].body.has_seal_order() && asked[1].body.has_seal_order());
  EXPECT_TRUE(books.disputes().empty());
  EXPECT_EQ(books.standing(stages[0].key())->audited_right(), 1);
  EXPECT_EQ(books.standing(stages[1].key())->audited_right(), 1);
  EXPECT_EQ(books.balance({}), 0) << "a ledger that is a log only";
  const AuditStatus status = audits->status();
  EXPECT_EQ(status.selected_total, 2u);
  EXPECT_EQ(status.agreed_total, 2u);
  EXPECT_EQ(status.disputed_total + status.missed_total + status.waiting + status.running, 0u);
}

TEST_F(AuditorTest, WhatWaitsForItsAuditIsPendingUntilItIsLogged) {
  EXPECT_FALSE(audits->is_pending());
  answer(request(1));
  EXPECT_TRUE(audits->is_pending());
  later(std::chrono::seconds(1));
  EXPECT_TRUE(audits->is_pending());
  compute(runs.at(0));
  EXPECT_EQ(audits->status().agreed_total, 2u);
  EXPECT_FALSE(audits->is_pending());
}

TEST_F(AuditorTest, AStageThatLiedIsNamedAndNoOther) {
  for (ReceiptStage& stage : stages) stage.boundary = "one unit off";
  answer(request(1));
  compute(runs.at(0));
  const std::vector<std::uint64_t> disputes = books.disputes();
  ASSERT_EQ(disputes.size(), 1u);
  EXPECT_EQ(books.receipt(disputes[0])->worker, stages[0].key());
  EXPECT_EQ(of_kind(kSeal), 1u) << "what came in behind it was another input";
  const AuditStatus status = audits->status();
  EXPECT_EQ(status.disputed_total, 1u);
  EXPECT_EQ(status.missed_total, 1u);
}

TEST_F(AuditorTest, OtherTokensAreComputedOnceMoreAsTheyWereClaimed) {
  // The lie of the first stage moved what was sampled.
  for (ReceiptStage& stage : stages) stage.boundary = "far off";
  answer(request(1));
  compute(runs.at(0), {1, 2, 3, 4, 5, 9, 9});
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].nodes, runs[0].nodes);
  EXPECT_EQ(runs[1].answer, std::vector<TokenId>{6}) << "what was fed; the last token never was";
  EXPECT_EQ(runs[1].sampling.max_tokens, 2u);
  compute(runs[1]);
  ASSERT_EQ(books.disputes().size(), 1u);
  EXPECT_EQ(books.receipt(books.disputes()[0])->worker, stages[0].key());
}

TEST_F(AuditorTest, WhoSampledOtherwiseIsTheLastStage) {
  answer(request(1));
  compute(runs.at(0), {1, 2, 3, 4, 5, 9, 7});
  compute(runs.at(1));
  ASSERT_EQ(books.disputes().size(), 1u);
  EXPECT_EQ(books.receipt(books.disputes()[0])->worker, stages[1].key());
  EXPECT_EQ(books.standing(stages[0].key())->audited_right(), 1) << "the first one was right";
}

TEST_F(AuditorTest, AnotherLastTokenIsInNoReceipt) {
  answer(request(1));
  compute(runs.at(0), {1, 2, 3, 4, 5, 6, 9});
  compute(runs.at(1));
  EXPECT_TRUE(books.disputes().empty());
  EXPECT_EQ(audits->status().disputed_total, 1u) << "and it is said nevertheless";
}

TEST_F(AuditorTest, WhatItsClientEndedIsAuditedUpToItsEnd) {
  ReceiptRequest cut = request(1);
  cut.sampling.max_tokens = 100;
  answer(cut);
  EXPECT_EQ(runs.at(0).sampling.max_tokens, 2u);
  compute(runs.at(0));
  EXPECT_EQ(books.standing(stages[0].key())->audited_right(), 1);
  EXPECT_EQ(of_kind(kOpening), 2u) << "the last stage's too: it commits to no most of tokens";
  EXPECT_EQ(audits->status().missed_total, 0u);
}

TEST_F(AuditorTest, NobodyAuditsHimselfAndNobodyOutsideATrustSet) {
  audits->end(Epoch(5));
  begin(testing::receipt_pipeline({stages[0], others[1]}, Epoch(6)));
  answer(request(1));
  EXPECT_TRUE(runs.empty());
  EXPECT_EQ(audits->status().waiting, 2u);
  EXPECT_FALSE(audits->status().why_waiting.empty());
  ReceiptPipeline another = testing::receipt_pipeline(others, Epoch(7));
  another.stages[0].layers.end = another.stages[1].layers.begin = 3;
  begin(another);
  later(std::chrono::seconds(1));
  EXPECT_TRUE(runs.empty()) << "another cut has other boundaries";
  begin(testing::receipt_pipeline(others, Epoch(8)));
  later(std::chrono::seconds(1));
  EXPECT_EQ(runs.size(), 1u) << "who comes later may still do it";

  ReceiptRequest secret = request(2);
  secret.policy.trust = {"a", "b", "c"};
  answer(secret);
  later(Auditor::kDrawPause);
  EXPECT_EQ(runs.size(), 1u);
  later(std::chrono::hours(1));
  EXPECT_EQ(audits->status().missed_total, 4u) << "what no node may compute is counted";
}

TEST_F(AuditorTest, NoOwnerChecksItselfNorHasTwoStagesOfAnAudit) {
  audits->end(Epoch(4));
  audits->end(Epoch(5));
  const auto owned = [](const std::vector<ReceiptStage>& list, Epoch epoch,
                        const std::vector<std::string>& owners) {
    ReceiptPipeline pipeline = testing::receipt_pipeline(list, epoch);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (!owners[i].empty()) pipeline.stages[i].owner = blake2b(as_bytes(owners[i]));
    }
    return pipeline;
  };
  begin(owned(stages, Epoch(4), {"Ada", ""}));
  begin(owned(others, Epoch(5), {"", "Ada"}));
  answer(request(1));
  EXPECT_TRUE(runs.empty()) << "d is Ada's, as a is";
  EXPECT_NE(audits->status().why_waiting.find("owner"), std::string::npos);
  EXPECT_EQ(books.owner(stages[0].key()), blake2b(as_bytes(std::string("Ada"))))
      << "the log says whose it is";
  EXPECT_EQ(books.owner(stages[1].key()), blake2b(stages[1].key().bytes())) << "its own";
  const std::vector<ReceiptStage> twice = {{"e", 0, 2}, {"f", 1, 2}};
  begin(owned(twice, Epoch(6), {"Bob", "Bob"}));
  later(std::chrono::seconds(1));
  EXPECT_TRUE(runs.empty()) << "both stages are Bob's";
  begin(owned(twice, Epoch(7), {"Bob", ""}));
  later(std::chrono::seconds(1));
  EXPECT_EQ(runs.size(), 1u);
}

// --- newcomers ---

struct NewcomersAudit : AuditorTest {
  NewcomersAudit() {
    for (const ReceiptStage& stage : others) {
      desk->doubt(stage.key());
      desk->enter(stage.key());
    }
    for (ReceiptStage& stage : stages) {
      stage.spoil = [this](ledger::Receipt& receipt) {
        receipt.begun_ms = static_cast<std::uint64_t>(clock.unix_seconds()) * 1'000;
      };
    }
    check(Epoch(5));
  }
  // The second pipeline is a checking one.
  void check(Epoch epoch) {
    audits->end(epoch);
    ReceiptPipeline pipeline = testing::receipt_pipeline(others, epoch);
    pipeline.checks = true;
    begin(pipeline);
  }
  static ReceiptRequest shared(unsigned char number) {
    ReceiptRequest one = request(number);
    one.policy.share = true;
    return one;
  }
};

TEST_F(NewcomersAudit, NoNewcomerEverComputesWhatIsPrivate) {
  for (unsigned char i = 1; i < 30; ++i) {
    ReceiptRequest one = request(i);
    one.policy.verify = i % 2 == 0 ? Verify::kFull : Verify::kNone;
    answer(one);
    later(Auditor::kDrawPause);
  }
  EXPECT_TRUE(runs.empty());
  EXPECT_EQ(audits->status().waiting, 2u * 29);
  ReceiptRequest high = shared(30);
  high.policy.min_level = ledger::Level::kProbation;
  answer(high);
  later(Auditor::kDrawPause);
  ReceiptRequest trusted = shared(31);
  trusted.policy.trust = {"a", "b"};
  answer(trusted);
  later(Auditor::kDrawPause);
  EXPECT_TRUE(runs.empty()) << "who shares and names a level or nodes means both";
}

TEST_F(NewcomersAudit, WhatIsSharedTheyCheckForThemselvesAlone) {
  const ReceiptRequest one = shared(1);
  answer(one);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_TRUE(runs[0].for_newcomers);
  EXPECT_EQ(runs[0].nodes, (std::vector<std::string>{"c", "d"}));
  EXPECT_TRUE(runs[0].answer.empty()) << "blind";
  EXPECT_NE(runs[0].order.request, one.order.request);
  compute(runs[0]);
  EXPECT_EQ(of_kind(kOpening), 2u);
  for (const ReceiptStage& stage : others) {
    EXPECT_EQ(books.standing(stage.key())->checks(), 1);
    EXPECT_EQ(books.standing(stage.key())->level(books.policy(), books.time()),
              ledger::Level::kNewcomer);
  }
  for (const ReceiptStage& stage : stages) {
    EXPECT_EQ(books.standing(stage.key())->audited_right(), 0) << "their word moves no standing";
  }
  EXPECT_EQ(audits->status().checked_total, 2u);
  // Nor does it discharge the draw.
  EXPECT_EQ(books.audits().selected, 2u);
  clock.advance(std::chrono::seconds(books.policy().audit_seconds + 1));
  answer(shared(2));
  EXPECT_EQ(books.audits().missed, 2u);
}

TEST_F(NewcomersAudit, WhatIsDrawnIsForOthersWhereThereAreAny) {
  std::vector<ReceiptStage> twins = {{"e", 0, 2}, {"f", 1, 2}};
  begin(testing::receipt_pipeline(twins, Epoch(6)));
  answer(shared(1));
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_FALSE(runs[0].for_newcomers);
  EXPECT_EQ(runs[0].nodes, (std::vector<std::string>{"e", "f"}));
}

TEST_F(NewcomersAudit, WhatNoDrawWantsTheyCheckToo) {
  // Until a draw passes something over.
  std::uint64_t undrawn = 0;
  for (unsigned char i = 1; i < 100; ++i) {
    const std::uint64_t selected = books.audits().selected;
    answer(shared(i));
    ASSERT_EQ(runs.size(), 1u);
    undrawn += books.audits().selected == selected ? 1 : 0;
    compute(std::exchange(runs, {})[0]);
    later(Auditor::kDrawPause);
  }
  EXPECT_GT(undrawn, 10u);
  EXPECT_EQ(books.standing(others[0].key())->checks(), 99);
  EXPECT_EQ(audits->status().missed_total, 0u);
}

TEST_F(NewcomersAudit, WhatTheyDoNotGetToIsNotMissed) {
  for (unsigned char i = 1; i < 60; ++i) {  // served enough to be drawn seldom
    answer(request(i));
    later(Auditor::kDrawPause);
  }
  for (unsigned char i = 60; i < 90; ++i) {
    answer(shared(i));
    later(Auditor::kDrawPause);
  }
  later(std::chrono::hours(1));
  EXPECT_EQ(audits->status().missed_total, books.audits().selected) << "the drawn ones, no more";
}

TEST_F(NewcomersAudit, TheirDisagreementIsADispute) {
  for (ReceiptStage& stage : others) stage.boundary = "one unit off";
  answer(shared(1));
  compute(runs.at(0));
  ASSERT_EQ(books.disputes().size(), 1u);
  EXPECT_EQ(books.receipt(books.disputes()[0])->worker, stages[0].key());
  EXPECT_EQ(audits->verdicts().open(), 1u) << "a referee is asked";
  EXPECT_EQ(books.standing(stages[0].key())->faults(books.policy(), books.time()), 0);
}

TEST_F(NewcomersAudit, WhoHasDoneItsDuesIsANewcomerNoMore) {
  const ledger::Policy policy;
  for (unsigned char day = 0; day < 9; ++day) {
    for (unsigned char i = 0; i < 12; ++i) {
      answer(shared(static_cast<unsigned char>(12 * day + i + 1)));
      ASSERT_EQ(runs.size(), 1u);
      compute(std::exchange(runs, {})[0]);
      later(Auditor::kDrawPause);
    }
    clock.advance(std::chrono::hours(24));
  }
  EXPECT_EQ(books.standing(others[0].key())->level(policy, books.time()),
            ledger::Level::kProbation);
  EXPECT_EQ(standings_of(audits->books()).at(others[0].key()).level, ledger::Level::kProbation);
  EXPECT_EQ(books.standing(others[0].key())->checks(), policy.newcomer_audits);
}

TEST_F(AuditorTest, EverythingIsAuditedWhereThatIsAskedForAndNothingWhereNot) {
  open(AuditMode::kOff);
  answer(request(1));
  EXPECT_EQ(of_kind(kDrawn), 0u);
  EXPECT_TRUE(runs.empty());
  entries.clear();
  books = ledger::Books();
  open(AuditMode::kFull);
  for (unsigned char i = 2; i < 60; ++i) {
    answer(request(i));
    later(Auditor::kDrawPause);
    ASSERT_FALSE(runs.empty()) << "also of windows that no draw selects";
    compute(runs.back());
    runs.clear();
  }
  EXPECT_EQ(of_kind(kOpening), 2u * 58);
  EXPECT_GT(books.audits().agreed, books.audits().selected);
  EXPECT_EQ(audits->status().agreed_total, 2u * 58);
}

TEST_F(AuditorTest, AtLowRatesMostIsForgottenAtOnce) {
  for (unsigned char i = 1; i < 250; ++i) {
    answer(request(i));
    later(Auditor::kDrawPause);
    for (const AuditRun& run : std::exchange(runs, {})) compute(run);
  }
  const AuditStatus status = audits->status();
  EXPECT_EQ(status.agreed_total, books.audits().selected);
  EXPECT_LT(books.audits().selected, 300u) << "100 of probation's beginning, then 30 %, then less";
  EXPECT_GT(books.audits().selected, 100u);
  EXPECT_EQ(books.windows(), 2u * 249) << "the rules allow an audit for an hour";
  EXPECT_LE(audits->books().windows(), 4u) << "but none is made of what no draw wanted";
}

// --- attacks (verification.md, 5) ---

TEST_F(AuditorTest, ASealIsItsAuditorsOwn) {
  willing = false;
  answer(request(1));
  compute(runs.at(0));
  ASSERT_EQ(asked.size(), 2u);
  control::v1::Seals seals = stage("c").seal(asked[0].body.seal_order());
  audits->take("d", seals);  // a seal that was copied
  audits->take("a", seals);
  control::v1::Seals forged = seals;
  forged.mutable_seals(0)->set_signature(std::string(64, '\1'));
  audits->take("c", forged);
  control::v1::Seals elsewhere = seals;
  elsewhere.mutable_seals(0)->set_entry(2);
  audits->take("c", elsewhere);
  pump();
  EXPECT_EQ(of_kind(kSeal), 0u);
  audits->take("c", seals);
  audits->take("c", seals);
  pump();
  EXPECT_EQ(of_kind(kSeal), 1u) << "once";
  EXPECT_EQ(asked.size(), 2u) << "nothing is opened before the other has sealed too";
  audits->take("c", stage("c").open([&] {
    control::v1::OpenOrder order;
    order.add_entries(seals.seals(0).entry());
    return order;
  }()));
  pump();
  EXPECT_EQ(of_kind(kOpening), 0u) << "nor taken";
}

TEST_F(AuditorTest, AnOpeningIsWhatWasSealedAndClaimed) {
  willing = false;
  answer(request(1));
  compute(runs.at(0));
  std::map<std::string, control::v1::Seals> seals;
  for (const Auditor::Message& message : std::exchange(asked, {})) {
    seals[message.node] = stage(message.node).seal(message.body.seal_order());
    audits->take(message.node, seals[message.node]);
  }
  pump();
  ASSERT_EQ(asked.size(), 2u);
  control::v1::Openings right = stage("c").open(asked[0].body.open_order());
  control::v1::Openings other = right;
  other.mutable_openings(0)->set_root(std::string(32, '\5'));
  audits->take("c", other);
  audits->take("d", right);
  pump();
  EXPECT_EQ(of_kind(kOpening), 0u);
  audits->take("c", right);
  audits->take("c", right);
  pump();
  EXPECT_EQ(of_kind(kOpening), 1u);
  later(Auditor::kPatience);  // d refuses
  EXPECT_EQ(audits->status().agreed_total, 1u);
  EXPECT_EQ(audits->status().missed_total, 1u) << "and it is counted";
  EXPECT_TRUE(books.disputes().empty());
  audits->take("d", stage("d").open(asked[1].body.open_order()));
  pump();
  EXPECT_EQ(of_kind(kOpening), 1u) << "too late";
}

TEST_F(AuditorTest, WhoClaimsOneThingAndSealsAnotherIsNotHeard) {
  willing = false;
  answer(request(1));
  const ReceiptRequest again = computed(runs.at(0), {1, 2, 3, 4, 5, 6, 7});
  claim(again);
  audits->over(again);
  pump();
  // It claims the next time what it would rather have found, and seals that.
  stage("c").boundary = "another";
  (void)stage("c").claim(again);
  willing = true;
  for (const Auditor::Message& message : std::exchange(asked, {})) {
    audits->take(message.node, stage(message.node).seal(message.body.seal_order()));
  }
  pump();
  EXPECT_EQ(of_kind(kSeal), 2u);
  EXPECT_EQ(of_kind(kOpening), 1u) << "d's";
}

// Of an answer, on one of two pipelines that could compute it.
AuditRun run_beside(testing::AuditLog& here) {
  here.begin(testing::receipt_pipeline(here.third, Epoch(6)));
  here.answer(here.request(1));
  EXPECT_EQ(here.runs.size(), 1u);
  std::vector<AuditRun> runs = std::exchange(here.runs, {});
  return runs.empty() ? AuditRun() : std::move(runs[0]);
}

TEST_F(AuditorTest, WhoClaimsARootHasARowOfIt) {
  struct Case {
    const char* name;
    std::function<void(control::v1::WindowClaim&)> spoil;
  };
  const std::vector<Case> cases = {
      {"none", [](auto& claim) { claim.clear_shown_row(); }},
      {"another one", [](auto& claim) { claim.mutable_shown_row()->at(5) ^= 1; }},
      {"no path", [](auto& claim) { claim.clear_shown_path(); }},
      {"half a hash", [](auto& claim) { claim.mutable_shown_path()->pop_back(); }},
      {"a longer path", [](auto& claim) { claim.mutable_shown_path()->append(32, 'x'); }},
      {"no end", [](auto& claim) { claim.mutable_shown_path()->append(32 << 10, 'x'); }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    testing::AuditLog here;
    const AuditRun run = run_beside(here);
    ASSERT_FALSE(run.nodes.empty());
    auto& auditors = run.nodes[0] == "c" ? here.others : here.third;
    ReceiptRequest again = here.computed(run, {1, 2, 3, 4, 5, 6, 7});
    again.epoch = run.nodes[0] == "c" ? Epoch(5) : Epoch(6);
    control::v1::WindowClaims claims = auditors[0].claim(again);
    one.spoil(*claims.mutable_windows(0));
    here.audits->take(auditors[0].node, claims);
    EXPECT_NE(here.audits->verdicts().keys().why_barred(auditors[0].key()), "")
        << "it gets no work";
    EXPECT_EQ(here.audits->verdicts().keys().why_barred(auditors[1].key()), "");
    EXPECT_EQ(here.audits->verdicts().keys().why_barred(here.stages[0].key()), "");
    EXPECT_FALSE(here.audits->is_run(run.order.request)) << "what is left of it is not waited for";
    here.later(std::chrono::seconds(1));
    ASSERT_EQ(here.runs.size(), 1u) << "the other pipeline computes it";
    EXPECT_NE(here.runs[0].nodes, run.nodes);
    const bool is_told = std::ranges::any_of(here.asked, [&](const Auditor::Message& message) {
      return message.node == auditors[0].node && message.body.has_ended();
    });
    EXPECT_TRUE(is_told);
  }
}

TEST_F(AuditorTest, ClaimsThatDoNotFitTheTokensAreNoAudit) {
  // That it had the tokens of the log, and others that no stage gave.
  for (const bool has_read : {true, false}) {
    testing::AuditLog here;
    const AuditRun run = run_beside(here);
    ASSERT_FALSE(run.nodes.empty());
    auto& auditors = run.nodes[0] == "c" ? here.others : here.third;
    ReceiptRequest again = here.computed(run, {1, 2, 3, 4, 5, has_read ? 6 : 8, 7});
    again.epoch = run.nodes[0] == "c" ? Epoch(5) : Epoch(6);
    for (ReceiptStage& stage : auditors) here.audits->take(stage.node, stage.claim(again));
    again.tokens = {1, 2, 3, 4, 5, 9, 9};  // what came of it
    here.audits->over(again);
    here.pump();
    EXPECT_TRUE(here.books.disputes().empty());
    EXPECT_EQ(here.of_kind(kSeal), 0u);
    EXPECT_EQ(here.audits->verdicts().keys().why_barred(auditors[0].key()), "");
    EXPECT_EQ(here.audits->verdicts().keys().why_barred(auditors[1].key()) != "", has_read)
        << "else the fault is unknown";
    here.later(std::chrono::seconds(1));
    ASSERT_EQ(here.runs.size(), 1u);
    EXPECT_NE(here.runs[0].nodes, run.nodes);
  }
}

TEST_F(AuditorTest, AWindowIsClaimedOnceByItsOwnStage) {
  answer(request(1));
  const ReceiptRequest again = computed(runs.at(0), {1, 2, 3, 4, 5, 6, 7});
  const control::v1::WindowClaims first = others[0].claim(again);
  audits->take("c", first);
  others[0].boundary = "second thoughts";
  audits->take("c", others[0].claim(again));
  audits->take("d", first);  // another's words
  audits->take("a", stages[1].claim(again));
  others[0].boundary = others[1].boundary;
  (void)others[0].claim(again);
  audits->over(again);
  pump();
  EXPECT_TRUE(asked.empty()) << "d has not claimed yet";
  audits->take("d", others[1].claim(again));
  pump();
  EXPECT_EQ(of_kind(kOpening), 2u);
  EXPECT_TRUE(books.disputes().empty());
}

TEST_F(AuditorTest, WhoDoesNotComputeIsReplacedAndThenItIsCounted) {
  begin(testing::receipt_pipeline({{"e", 0, 2}, {"f", 1, 2}}, Epoch(6)));
  answer(request(1));
  ASSERT_EQ(runs.size(), 1u);
  audits->put_off(runs[0].order.request, "the queue is full");
  EXPECT_FALSE(audits->is_run(runs[0].order.request));
  EXPECT_EQ(audits->status().waiting, 2u);
  later(std::chrono::seconds(3));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].nodes, runs[0].nodes) << "it was not its fault";
  audits->give_up(runs[1].order.request, "its pipeline was lost");
  later(std::chrono::seconds(1));
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_NE(runs[2].nodes, runs[0].nodes);
  audits->give_up(runs[2].order.request, "its pipeline was lost");
  later(std::chrono::seconds(1));
  EXPECT_EQ(runs.size(), 3u) << "no node is left";
  begin(testing::receipt_pipeline(others, Epoch(9)));
  later(std::chrono::seconds(1));
  ASSERT_EQ(runs.size(), 4u);
  // One that computes and says nothing of it.
  ReceiptRequest silent = computed(runs[3], {1, 2, 3, 4, 5, 6, 7});
  silent.epoch = Epoch(9);
  audits->over(silent);
  later(Auditor::kPatience);
  EXPECT_EQ(audits->status().missed_total, 2u);
  EXPECT_EQ(audits->status().running + audits->status().waiting, 0u);
}

TEST_F(AuditorTest, WhatIsKeptIsBoundedAndForgotten) {
  audits->end(Epoch(5));
  ReceiptRequest large = request(1);
  answer(large);
  EXPECT_EQ(audits->status().waiting, 2u);
  for (unsigned char i = 2; i < 5; ++i) {
    ReceiptRequest other = request(i);
    other.tokens.resize(Auditor::kKeptBytes / sizeof(TokenId) / 2, 1);
    audits->over(other);
  }
  EXPECT_EQ(audits->status().missed_total, 2u) << "the oldest gives way, and is counted";
}

TEST_F(AuditorTest, AGrammarCountsAmongWhatIsKept) {
  audits->end(Epoch(5));
  answer(request(1));
  EXPECT_EQ(audits->status().waiting, 2u);
  for (unsigned char i = 2; i < 5; ++i) {
    ReceiptRequest other = request(i);
    other.sampling.grammar.resize(Auditor::kKeptBytes / 2);
    audits->over(other);
  }
  EXPECT_EQ(audits->status().missed_total, 2u);
}

TEST_F(AuditorTest, OneKeyTakesNoOthersAudits) {
  audits->end(Epoch(5));
  ReceiptRequest quiet = request(1);
  quiet.policy.owner = "quiet";
  answer(quiet);
  for (unsigned char i = 2; i < 5; ++i) {
    ReceiptRequest flood = request(i);
    flood.policy.owner = "flood";
    flood.tokens.resize(Auditor::kKeptBytes / sizeof(TokenId) / 2, 1);
    audits->over(flood);
  }
  EXPECT_EQ(audits->status().waiting, 2u);
  EXPECT_EQ(audits->status().missed_total, 0u);
}

TEST_F(AuditorTest, MoreWindowsThanAreFoldedEndNoAudits) {
  constexpr std::size_t kFolded = 6;
  audits = std::make_unique<Auditor>(testing::receipt_cluster(), clock, AuditMode::kSpot, false,
                                     kFolded);
  begin(testing::receipt_pipeline(stages));
  begin(testing::receipt_pipeline(others, Epoch(5)));
  for (unsigned char i = 1; i <= 10; ++i) {
    const ReceiptRequest one = request(i);  // its tokens are not kept
    desk->start(one.epoch, one.order.request, one.tokens.size());
    for (ReceiptStage& stage : stages) desk->take(stage.node, stage.claim(one));
    desk->over(one);
    pump();
    EXPECT_LE(audits->books().windows(), kFolded);
  }
  EXPECT_EQ(audits->status().mode, AuditMode::kSpot);
  EXPECT_TRUE(audits->follows() && runs.empty());
  later(Auditor::kDrawPause);
  EXPECT_GT(audits->status().missed_total, 0u) << "they are counted";
  answer(request(11));
  for (unsigned char i = 12; i <= 20; ++i) {
    const ReceiptRequest one = request(i);
    desk->start(one.epoch, one.order.request, one.tokens.size());
    for (ReceiptStage& stage : stages) desk->take(stage.node, stage.claim(one));
    desk->over(one);
    pump();
  }
  later(Auditor::kDrawPause);
  ASSERT_EQ(runs.size(), 1u) << "what is kept is audited, however many come after it";
  compute(runs[0]);
  EXPECT_EQ(audits->status().agreed_total, 2u);
}

TEST_F(AuditorTest, AnotherProcessAuditsWhatItSees) {
  answer(request(1));
  open(AuditMode::kSpot);
  EXPECT_EQ(audits->status().selected_total, 0u);
  answer(request(2));
  later(Auditor::kDrawPause);
  compute(runs.back());
  EXPECT_EQ(audits->status().agreed_total, 2u);
  EXPECT_EQ(of_kind(kDrawn), 2u);
}

using Kind = AuditOutcome::Kind;

TEST_F(AuditorTest, WhatCameOfARequestIsReported) {
  const ReceiptRequest one = request(1);
  answer(one);
  EXPECT_TRUE(take_outcomes().empty());
  compute(runs.at(0));
  const std::vector<AuditOutcome> outcomes = take_outcomes();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].kind, Kind::kAgreed);
  EXPECT_EQ(outcomes[0].request, one.order.request);
  ASSERT_EQ(outcomes[0].windows.size(), 2u);
  EXPECT_NE(outcomes[0].windows[0].stage, outcomes[0].windows[1].stage);
  EXPECT_EQ(outcomes[0].windows[1].others, 1u);
}

TEST_F(AuditorTest, AStageThatLiedIsReportedOnce) {
  for (ReceiptStage& stage : stages) stage.boundary = "one unit off";
  answer(request(1));
  compute(runs.at(0));
  const std::vector<AuditOutcome> outcomes = take_outcomes();
  ASSERT_EQ(outcomes.size(), 1u) << "what is in dispute is neither right nor without an audit";
  EXPECT_EQ(outcomes[0].kind, Kind::kDisputed);
  EXPECT_EQ(outcomes[0].node, stages[0].node);
  EXPECT_EQ(outcomes[0].stage, 0u);
  EXPECT_EQ(outcomes[0].entry, books.disputes().at(0));
}

TEST_F(AuditorTest, ARequestHasAllItsWindowsAuditedThoughNoneIsDrawn) {
  // Until a draw at a lower rate than all leaves one out.
  unsigned char number = 1;
  for (; number < 200; ++number) {
    answer(request(number));
    clock.advance(Auditor::kDrawPause);
    pump();
    if (runs.empty()) break;
    compute(std::exchange(runs, {}).front());
  }
  ASSERT_LT(number, 200) << "everything was drawn";
  take_outcomes();
  ReceiptRequest whole = request(++number);
  whole.policy.verify = Verify::kFull;
  answer(whole);
  clock.advance(Auditor::kDrawPause);
  pump();
  ASSERT_EQ(runs.size(), 1u);
  compute(runs[0]);
  const std::vector<AuditOutcome> outcomes = take_outcomes();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].kind, Kind::kAgreed);
  EXPECT_EQ(outcomes[0].windows.size(), 2u);
}

TEST_F(AuditorTest, NobodyBelowItsLevelAuditsAPrivatePrompt) {
  ReceiptRequest secret = request(1);
  secret.policy.min_level = ledger::Level::kRegular;
  answer(secret);
  EXPECT_TRUE(runs.empty()) << "all here are on probation";
  EXPECT_EQ(audits->status().waiting, 2u);
  ReceiptRequest open = request(2);
  open.policy.min_level = ledger::Level::kProbation;
  answer(open);
  clock.advance(Auditor::kDrawPause);
  pump();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].min_level, ledger::Level::kProbation);
}

TEST_F(AuditorTest, WhoAskedForAllIsToldWhyThereIsNoAudit) {
  audits = std::make_unique<Auditor>(testing::receipt_cluster(), clock, AuditMode::kOff);
  ReceiptRequest whole = request(1);
  audits->over(whole);
  EXPECT_TRUE(take_outcomes().empty()) << "no client asked";
  whole.policy.verify = Verify::kFull;
  audits->over(whole);
  const std::vector<AuditOutcome> outcomes = take_outcomes();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].kind, Kind::kUnaudited);
  EXPECT_EQ(outcomes[0].why, "audits are off on this server (--audit off)");
}

TEST_F(AuditorTest, StandingsAreThoseOfTheLog) {
  answer(request(1));
  compute(runs.at(0));
  const Standings standings = standings_of(audits->books());
  ASSERT_EQ(standings.size(), 4u);
  EXPECT_EQ(standings.at(stages[0].key()).level, ledger::Level::kProbation);
  EXPECT_EQ(standings.at(stages[0].key()).audited_right, 1);
  EXPECT_EQ(standings.at(others[0].key()).audited_right, 0);
}

}  // namespace
}  // namespace hearth::coordinator

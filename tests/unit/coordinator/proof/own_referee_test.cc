#include "coordinator/proof/own_referee.h"

#include <gtest/gtest.h>

#include "tests/unit/coordinator/proof/audit_log.h"
#include "tests/unit/coordinator/proof/true_finding.h"

namespace hearth::coordinator {
namespace {

using testing::finding_of;
using testing::ReceiptStage;

constexpr std::size_t kRefereeSeal = 6;
constexpr std::size_t kRefereeVerdict = 8;

OwnReferee::Key referee_key(unsigned char number) {
  ledger::RequestId request{};
  request.fill(std::byte{number});
  return {request, Epoch(1)};
}

TEST(OwnReferee, OneIsAskedAtATimeAndFewWait) {
  OwnReferee referee;
  for (unsigned char i = 0; i < OwnReferee::kQueue; ++i) {
    EXPECT_TRUE(referee.add(referee_key(i), {}));
  }
  EXPECT_FALSE(referee.add(referee_key(99), {})) << "the queue is bounded";
  const auto first = referee.take_ask(1'000);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->request.until, 1'000 + OwnReferee::kSeconds);
  EXPECT_FALSE(referee.take_ask(1'000)) << "he has not answered yet";
  EXPECT_FALSE(referee.answered(first->number + 1));
  EXPECT_EQ(referee.answered(first->number), referee_key(0));
  EXPECT_FALSE(referee.answered(first->number)) << "once";
  referee.drop(referee_key(1));
  const auto next = referee.take_ask(1'000);
  ASSERT_TRUE(next);
  EXPECT_EQ(referee.answered(next->number), referee_key(2));
}

// Of the desk that hands it requests.
struct OwnRefereeTest : ::testing::Test, testing::AuditLog {
  OwnRefereeTest() {
    audits->referee().set_rate(ledger::kMillion);
    for (auto* list : {&stages, &others}) {
      for (const ReceiptStage& one : *list) audits->verdicts().meet(one.node, one.key());
    }
  }
  // What the desk asks him, and his answer.
  void referee(const std::vector<TokenId>& sampled = {6, 7}) {
    const auto ask = audits->referee().take_ask(clock.unix_seconds());
    ASSERT_TRUE(ask);
    audits->refereed(ask->number, finding_of(ask->request, sampled));
    pump();
  }
  void judge(const std::vector<TokenId>& sampled = {6, 7}) {
    for (const DisputeResolver::Ask& ask : audits->verdicts().take_asks()) {
      audits->verdicts().found(ask.entry, finding_of(ask.request, sampled));
    }
    pump();
  }
  void lie() {
    for (auto* list : {&stages, &others}) {
      for (ReceiptStage& one : *list) one.boundary = "one unit off";
    }
  }
  std::optional<ledger::VerdictEntry> verdict() const {
    for (const Bytes& bytes : entries) {
      const ledger::Entry entry = *ledger::parse_entry(bytes);
      if (const auto* one = std::get_if<ledger::VerdictEntry>(&entry.body)) return *one;
    }
    return std::nullopt;
  }
  const PublicKey own = testing::receipt_cluster().public_key();
};

TEST_F(OwnRefereeTest, WhatAllHoldersAgreeOnAndIsFalseIsFound) {
  lie();
  audits->referee().set_rate(0);
  answer(request(1));
  compute(runs.at(0));
  EXPECT_TRUE(books.disputes().empty()) << "a majority that colludes agrees with itself";
  EXPECT_EQ(audits->status().agreed_total, 2u);
  audits->referee().set_rate(ledger::kMillion);
  runs.clear();
  clock.advance(Auditor::kDrawPause);
  answer(request(2));
  EXPECT_TRUE(runs.empty()) << "what he computes, no pipeline computes";
  referee();
  ASSERT_EQ(books.disputes().size(), 1u);
  EXPECT_EQ(books.receipt(books.disputes()[0])->worker, stages[0].key());
  EXPECT_EQ(books.doubters(books.disputes()[0]), std::vector<PublicKey>{own})
      << "the log says whose word it is";
  EXPECT_EQ(standings_of(audits->books()).at(stages[0].key()).disputes, 1u);
  judge();
  ASSERT_EQ(runs.size(), 1u) << "the worker computes it once more";
  ReceiptRequest again = computed(runs[0], {1, 2, 3, 4, 5, 6, 7});
  again.epoch = Epoch(4);
  for (ReceiptStage& one : stages) audits->take(one.node, one.claim(again));
  audits->over(again);
  pump();
  audits->verdicts().on_answer("a",
                               stages[0].plead(books.disputes()[0], ledger::Plea::kConceded, true));
  pump();
  ASSERT_TRUE(verdict());
  EXPECT_EQ(verdict()->guilty, stages[0].key());
  EXPECT_EQ(verdict()->verdict, ledger::Verdict::kFraud);
  EXPECT_EQ(audits->status().ended_disputes, 1u);
  EXPECT_EQ(audits->status().open_disputes, 0u);
}

TEST_F(OwnRefereeTest, WhoIsRightIsSaidToBe) {
  answer(request(1));
  referee();
  EXPECT_EQ(of_kind(kRefereeSeal), 2u);
  EXPECT_EQ(books.standing(stages[0].key())->audited_right(), 1);
  EXPECT_EQ(books.standing(stages[1].key())->audited_right(), 1);
  const AuditStatus status = audits->status();
  EXPECT_EQ(status.referee_selected_total, 2u);
  EXPECT_EQ(status.referee_missed_total, 0u);
  EXPECT_EQ(status.agreed_total, 2u);
  EXPECT_EQ(status.selected_total, 2u);
  EXPECT_EQ(status.referee_waiting + status.waiting + status.running, 0u);
}

TEST_F(OwnRefereeTest, AFalseTokenIsTheLastStages) {
  answer(request(1));
  referee({9, 7});
  ASSERT_EQ(books.disputes().size(), 1u);
  EXPECT_EQ(books.receipt(books.disputes()[0])->worker, stages[1].key());
  EXPECT_EQ(books.standing(stages[0].key())->audited_right(), 1);
}

TEST_F(OwnRefereeTest, ALastTokenThatNoReceiptHasIsSaid) {
  answer(request(1));
  referee({6, 9});
  EXPECT_TRUE(books.disputes().empty());
  EXPECT_EQ(audits->status().disputed_total, 1u);
}

TEST_F(OwnRefereeTest, ARefereeThatDoesNotAgreeWithHimselfIsAtFault) {
  answer(request(1));
  const auto ask = audits->referee().take_ask(clock.unix_seconds());
  ASSERT_TRUE(ask);
  ledger::RefereeFinding flipped = finding_of(ask->request, {6, 7});
  flipped.windows[0][0] = blake2b(as_bytes("a bit"));
  audits->refereed(ask->number, flipped);
  pump();
  ASSERT_EQ(books.disputes().size(), 1u);
  judge();
  ASSERT_EQ(of_kind(kRefereeVerdict), 1u);
  EXPECT_EQ(verdict()->guilty, own);
  EXPECT_EQ(verdict()->verdict, ledger::Verdict::kFault);
  EXPECT_TRUE(books.disputes().empty());
  EXPECT_EQ(books.standing(stages[0].key())->faults(books.policy(), books.time()), 0);
  EXPECT_EQ(audits->verdicts().keys().why_barred(stages[0].key()), "");
}

TEST_F(OwnRefereeTest, WhatHeCannotComputeOthersDoAndItIsCounted) {
  answer(request(1));
  const auto ask = audits->referee().take_ask(clock.unix_seconds());
  ASSERT_TRUE(ask);
  audits->refereed(ask->number, Error{ErrorCode::kTimeout, "not in time"});
  pump();
  EXPECT_EQ(audits->status().referee_missed_total, 2u);
  EXPECT_EQ(audits->status().why_referee_missed, "not in time");
  ASSERT_EQ(runs.size(), 1u) << "the draw of audits has it, too";
  compute(runs[0]);
  EXPECT_EQ(audits->status().agreed_total, 2u);
  EXPECT_EQ(audits->status().missed_total, 0u);
}

TEST_F(OwnRefereeTest, WhatFindsNoRoomIsCounted) {
  for (unsigned char i = 1; i <= OwnReferee::kQueue + 1; ++i) {
    answer(request(i));
    later(Auditor::kDrawPause);
  }
  EXPECT_EQ(audits->status().referee_waiting, OwnReferee::kQueue);
  EXPECT_EQ(audits->status().referee_missed_total, 2u);
  later(std::chrono::hours(1));
  EXPECT_EQ(audits->status().referee_missed_total, 2u * (OwnReferee::kQueue + 1))
      << "what is too old to be audited, likewise";
}

// The detection at the policy's rate is what the rate promises: the two windows of a request are
// drawn together.
TEST_F(OwnRefereeTest, AtThePolicysRateOneRequestIn200IsHis) {
  audits->referee().set_rate(books.policy().coordinator_rate);
  constexpr int kDraws = 100;
  constexpr int kOfADraw = 20;
  unsigned found = 0;
  for (int i = 0; i < kDraws * kOfADraw; ++i) {
    ReceiptRequest one = request(1);
    one.order.request[0] = std::byte(i & 0xff);
    one.order.request[1] = std::byte(i >> 8);
    answer(one);
    if (i % kOfADraw == kOfADraw - 1) later(Auditor::kDrawPause);
    while (const auto ask = audits->referee().take_ask(clock.unix_seconds())) {
      ++found;
      audits->refereed(ask->number, Error{ErrorCode::kUnavailable, "no copy"});
    }
    runs.clear();
  }
  // 10 are expected; outside of this once in 10,000 series.
  EXPECT_GE(found, 1u);
  EXPECT_LE(found, 23u);
  EXPECT_EQ(books.audits().refereed, 2 * found);
}

}  // namespace
}  // namespace hearth::coordinator
